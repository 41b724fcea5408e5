; Two threads that build trees, and what they give.
(define tree (lambda (depth)
  (if (< depth 1) (quote ()) (cons (tree (- depth 1)) (tree (- depth 1))))))
(define count (lambda (tree)
  (if tree (+ 1 (+ (count (first tree)) (count (rest tree)))) 0)))
(define one (thread (lambda () (tree 14))))
(define other (thread (lambda () (tree 15))))
(collect)
(show (cons (count (join one)) (cons (count (join other)) (quote ()))))
