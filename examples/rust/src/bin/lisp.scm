(define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))
(display (fib 20))

(define tak (lambda (x y z)
  (if (< y x)
      (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))
      z)))
(display (tak 12 8 4))

(define loop (lambda (n sum) (if (= n 0) sum (loop (- n 1) (+ sum n)))))
(display (loop 300000 0))

(define numbers (lambda (n seed)
  (if (= n 0) (quote ()) (cons (modulo (* seed 7919) 1000) (numbers (- n 1) (+ seed 104729))))))
(define insert (lambda (x list)
  (if (null? list) (cons x list)
      (if (< x (car list)) (cons x list) (cons (car list) (insert x (cdr list)))))))
(define sort (lambda (list) (if (null? list) list (insert (car list) (sort (cdr list))))))
(display (sort (numbers 20 1)))

(define text (lambda (n) (if (= n 0) "" (append-text (text (- n 1)) n "."))))
(display (text 12))

(define again #f)
(define count 0)
(display (+ 100 (call/cc (lambda (k) (begin (set! again k) 1)))))
(set! count (+ count 1))

(define first-over (lambda (limit list)
  (call/cc (lambda (return)
    (begin
      (define walk (lambda (list)
        (if (null? list) #f
            (begin (if (< limit (car list)) (return (car list))) (walk (cdr list))))))
      (walk list))))))
(display (first-over 10 (quote (3 7 12 20))))

(define counter (lambda (n) (lambda () (begin (set! n (+ n 1)) n))))
(define tick (counter 40))
(tick)
(display (tick))
