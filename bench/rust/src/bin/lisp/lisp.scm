(define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))

(define tak (lambda (x y z)
  (if (< y x)
      (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))
      z)))

(define numbers (lambda (n seed list)
  (if (= n 0) list (numbers (- n 1) (modulo (+ seed 104729) 999983) (cons seed list)))))
(define odd (lambda (list)
  (if (null? list) list (cons (car list) (even (cdr list))))))
(define even (lambda (list)
  (if (null? list) list (odd (cdr list)))))
(define merge (lambda (one other)
  (if (null? one) other
      (if (null? other) one
          (if (< (car one) (car other))
              (cons (car one) (merge (cdr one) other))
              (cons (car other) (merge one (cdr other))))))))
(define sort (lambda (list)
  (if (null? list) list
      (if (null? (cdr list)) list
          (merge (sort (odd list)) (sort (even list)))))))

(define text (lambda (n built)
  (if (= n 0) built (text (- n 1) (append-text built "tide.")))))

(define repeat (lambda (n)
  (if (= n 0) n
      (begin
        (show (fib 22))
        (show (tak 14 9 4))
        (show (sort (numbers 10000 n (quote ()))))
        (show (text 500 ""))
        (repeat (- n 1))))))
(repeat rounds)
