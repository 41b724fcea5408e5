; Trees that are dropped as soon as they are counted.
(define tree (lambda (depth)
  (if (< depth 1) (quote ()) (cons (tree (- depth 1)) (tree (- depth 1))))))
(define count (lambda (tree)
  (if tree (+ 1 (+ (count (first tree)) (count (rest tree)))) 0)))
(define repeat (lambda (times total)
  (if (< times 1) total (repeat (- times 1) (+ total (count (tree 10)))))))
(show (repeat 500 0))
