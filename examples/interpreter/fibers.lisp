; A fiber that gives one square after the other. What it holds is on a stack of its own, also
; while the collector runs.
(define next (lambda (n square)
  (begin (yield (cons n square)) (next (+ n 1) (+ square (+ n (+ n 1)))))))
(define squares (fiber (lambda (unused) (next 1 1))))
(define take (lambda (times)
  (if (< times 1)
    (quote ())
    (cons (resume squares 0) (begin (collect) (take (- times 1)))))))
(show (take 5))
