;;; Guile: numbers. Digits of pi by a spigot, factorials both ways round, Fibonacci by doubling,
;;; exact fractions, modular powers: big integers that grow and die by the thousand. Every result
;;; is checked by an identity. Exits 1 when wrong.

(use-modules (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what)))

(define (digit-sum n)
  (string-fold (lambda (c sum) (+ sum (- (char->integer c) 48))) 0 (number->string n)))

;; Gibbons' unbounded spigot for pi; Machin's formula says whether it is right.
(define (pi-digits n)
  (let loop ((q 1) (r 0) (t 1) (k 1) (m 3) (x 3) (digits '()) (count 0))
    (cond
     ((= count n) (string->number (apply string-append (reverse (map number->string digits)))))
     ((< (+ (* 4 q) (- r t)) (* m t))
      (loop (* 10 q) (* 10 (- r (* m t))) t k
            (- (quotient (* 10 (+ (* 3 q) r)) t) (* 10 m)) x (cons m digits) (+ count 1)))
     (else
      (loop (* q k) (* (+ (* 2 q) r) x) (* t x) (+ k 1)
            (quotient (+ (* q (+ (* 7 k) 2)) (* r x)) (* t x)) (+ x 2) digits count)))))

(define (arctan-inverse x unit)
  (let loop ((power (quotient unit x)) (n 1) (sum 0) (sign 1))
    (if (zero? power)
        sum
        (loop (quotient power (* x x)) (+ n 2) (+ sum (* sign (quotient power n))) (- sign)))))

(define (machin n)
  (let ((unit (expt 10 (+ n 9))))
    (quotient (* 4 (- (* 4 (arctan-inverse 5 unit)) (arctan-inverse 239 unit))) (expt 10 10))))

(let ((digits (pi-digits 900)))
  (check 'pi (machin 900) digits)
  (format #t "pi: 900 digits, digit sum ~a~%" (digit-sum digits)))

(define (product from to)
  (if (= from to) from
      (let ((middle (quotient (+ from to) 2)))
        (* (product from middle) (product (+ middle 1) to)))))
(let ((up (fold * 1 (iota 3000 1))) (tree (product 1 3000)))
  (check 'factorial up tree)
  (check 'division (product 1001 3000) (quotient up (product 1 1000)))
  (gc)
  (format #t "3000!: digit sum ~a~%" (digit-sum up)))

(define (fibonacci n)                   ; (F(n) . F(n+1)) by doubling
  (if (zero? n)
      (cons 0 1)
      (let* ((half (fibonacci (quotient n 2))) (a (car half)) (b (cdr half))
             (c (* a (- (* 2 b) a))) (d (+ (* a a) (* b b))))
        (if (even? n) (cons c d) (cons d (+ c d))))))
(let ((pair (fibonacci 60000)))
  (check 'cassini 1 (let ((a (car pair)) (b (cdr pair))) (- (* b b) (* a b) (* a a))))
  (format #t "F(60000): digit sum ~a~%" (digit-sum (car pair))))

(let ((harmonic (fold (lambda (n sum) (+ sum (/ 1 n))) 0 (iota 1500 1)))
      (backwards (fold (lambda (n sum) (+ sum (/ 1 n))) 0 (reverse (iota 1500 1)))))
  (check 'harmonic harmonic backwards)
  (format #t "H(1500): numerator's digit sum ~a, about ~a~%"
          (digit-sum (numerator harmonic)) (/ (round (* 1e6 (exact->inexact harmonic))) 1e6)))

(define prime (- (expt 2 521) 1))
(check 'fermat 1 (modulo-expt 3 (- prime 1) prime))
(format #t "modular powers: ~a~%"
        (digit-sum (fold (lambda (i sum) (+ sum (modulo-expt (+ i 2) (+ prime i) prime))) 0 (iota 60))))

;; Many medium integers alive at once, in a table, shifted and masked back.
(define table (make-hash-table))
(for-each (lambda (i) (hashv-set! table i (ash (+ i 1) (+ 64 (modulo i 300))))) (iota 40000))
(gc)
(for-each (lambda (i)
            (check 'shift (+ i 1) (ash (hashv-ref table i) (- (+ 64 (modulo i 300))))))
          (iota 40000))
(format #t "shifts: ~a~%" (digit-sum (hash-fold (lambda (k v sum) (logxor v sum)) 0 table)))

;; Floats are heap objects: a sum by pairs against the exact one.
(let ((floats (map (lambda (i) (/ i 1024.0)) (iota 300000))))
  (check 'floats (/ (* 299999 150000) 1024.0) (fold + 0.0 floats))
  (format #t "floats: ~a~%" (fold + 0.0 floats)))
