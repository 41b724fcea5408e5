;;; Guile: weak tables and vectors. What is held strongly must stay, with its contents; of what is
;;; held weakly only, nearly all must go. A conservative stack may hold a few, so at most one in
;;; ten may remain. Prints only what is the same under every collector; exits 1 when wrong.

(use-modules (ice-9 weak-vector) (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

;; The first collection has Guile make its thread of finalizers, which disables collections while it
;; starts.
(gc)
(usleep 50000)

(define total 4000)
(define kept-share 5)                   ; every fifth is held strongly

;; Deep frames overwrite what earlier calls left on the stack.
(define (scrub depth)
  (if (zero? depth) 0 (+ 1 (scrub (- depth 1)))))

(define (collect!)
  (scrub 2000)
  (gc) (gc) (gc))

(define (kept? i) (zero? (modulo i kept-share)))

(define (check-count what kept alive)
  (when (< alive kept) (fail what 'lost (- kept alive)))
  (when (> alive (+ kept (quotient total 10))) (fail what 'not-collected (- alive kept)))
  (format #t "~a: all that was held is there, the rest is gone~%" what))

;; A list that is not used any more is garbage: a cycle that runs between two checks takes what it held.
(define (held-until-here! kept)
  (unless (= (length kept) kept-count) (fail 'kept (length kept))))

;; hash-fold is the walk that knows weak tables.
(define (entries table) (hash-fold (lambda (key value n) (+ n 1)) 0 table))

(define kept-count (count kept? (iota total)))

;; Weak keys: key -> list.
(define (fill-weak-keys! table)
  (let loop ((i 0) (kept '()))
    (if (= i total)
        kept
        (let ((key (vector 'key i)))
          (hashq-set! table key (list 'value i (number->string i)))
          (loop (+ i 1) (if (kept? i) (cons key kept) kept))))))

(let* ((table (make-weak-key-hash-table))
       (kept (fill-weak-keys! table)))
  (collect!)
  (for-each (lambda (key)
              (let ((i (vector-ref key 1)))
                (unless (equal? (hashq-ref table key) (list 'value i (number->string i)))
                  (fail 'weak-key i (hashq-ref table key)))))
            kept)
  (check-count 'weak-keys kept-count (entries table))
  (held-until-here! kept))

;; Weak values: number -> string; the kept strings are compared in full.
(define (fill-weak-values! table)
  (let loop ((i 0) (kept '()))
    (if (= i total)
        kept
        (let ((value (string-append "value " (number->string i))))
          (hashv-set! table i value)
          (loop (+ i 1) (if (kept? i) (cons (cons i value) kept) kept))))))

(let* ((table (make-weak-value-hash-table))
       (kept (fill-weak-values! table)))
  (collect!)
  (for-each (lambda (pair)
              (unless (eq? (hashv-ref table (car pair)) (cdr pair))
                (fail 'weak-value (car pair))))
            kept)
  (check-count 'weak-values kept-count (entries table))
  (held-until-here! kept))

;; Doubly weak: an entry goes when either side goes. Keys and values are kept by different rules.
(define (fill-doubly-weak! table)
  (let loop ((i 0) (keys '()) (values '()))
    (if (= i total)
        (cons keys values)
        (let ((key (vector 'key i)) (value (vector 'value i)))
          (hashq-set! table key value)
          (loop (+ i 1)
                (if (zero? (modulo i 2)) (cons key keys) keys)
                (if (zero? (modulo i 3)) (cons value values) values))))))

(let* ((table (make-doubly-weak-hash-table))
       (kept (fill-doubly-weak! table))
       (both (count (lambda (i) (zero? (modulo i 6))) (iota total))))
  (collect!)
  (let ((found (count (lambda (key)
                        (let ((value (hashq-ref table key)))
                          (when (and value (not (= (vector-ref value 1) (vector-ref key 1))))
                            (fail 'doubly-weak key value))
                          value))
                      (car kept))))
    (check-count 'doubly-weak both found)
    (unless (= (length (cdr kept)) (count (lambda (i) (zero? (modulo i 3))) (iota total)))
      (fail 'doubly-weak-values))))

;; A weak vector: slots become #f.
(define (fill-weak-vector! slots)
  (let loop ((i 0) (kept '()))
    (if (= i total)
        kept
        (let ((item (list i (* i i))))
          (weak-vector-set! slots i item)
          (loop (+ i 1) (if (kept? i) (cons item kept) kept))))))

(let* ((slots (make-weak-vector total #f))
       (kept (fill-weak-vector! slots)))
  (collect!)
  (for-each (lambda (item)
              (unless (eq? item (weak-vector-ref slots (car item)))
                (fail 'weak-vector item)))
            kept)
  (check-count 'weak-vector kept-count
               (count (lambda (i) (weak-vector-ref slots i)) (iota total)))
  (held-until-here! kept))

;; Symbols live in a weak set: a name that is dropped and interned again must work, and a symbol
;; that is held must stay the one and only.
(define held-symbols
  (map (lambda (i) (string->symbol (string-append "held-" (number->string i)))) (iota 1000)))
(define (intern-and-drop! n)
  (let loop ((i 0) (length-sum 0))
    (if (= i n)
        length-sum
        (loop (+ i 1)
              (+ length-sum
                 (string-length
                  (symbol->string
                   (string->symbol (string-append "dropped-" (number->string i))))))))))
(let* ((first-sum (intern-and-drop! 200000))
       (ignored (collect!))
       (second-sum (intern-and-drop! 200000)))
  (unless (= first-sum second-sum) (fail 'symbol-names first-sum second-sum))
  (for-each (lambda (i symbol)
              (unless (eq? symbol
                           (string->symbol (string-append "held-" (number->string i))))
                (fail 'symbol-identity symbol)))
            (iota 1000) held-symbols)
  (format #t "symbols: ~a characters twice, held ones unchanged~%" first-sum))

;; Object properties sit in a weak table too, and may be set from inside a walk over others.
(define colour (make-object-property))
(define painted (map (lambda (i) (list i)) (iota 1000)))
(for-each (lambda (item) (set! (colour item) (* 3 (car item)))) painted)
(collect!)
(format #t "properties: ~a~%" (fold + 0 (map colour painted)))
