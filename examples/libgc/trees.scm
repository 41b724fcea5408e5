;; trees.scm: builds trees and drops them, beside one that stays. For Guile, which is linked with
;; libgc.
(define (tree depth)
  (if (= depth 0)
      '()
      (cons (tree (- depth 1)) (tree (- depth 1)))))

(define (count tree)
  (if (null? tree) 1 (+ (count (car tree)) (count (cdr tree)))))

(define kept (tree 18))
(do ((i 0 (+ i 1))
     (leaves 0 (+ leaves (count (tree 12)))))
    ((= i 200)
     (format #t "~a leaves came and went, ~a are kept~%" leaves (count kept))))
