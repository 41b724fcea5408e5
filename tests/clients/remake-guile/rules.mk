# What is to be done, and what it says, is computed in Scheme: 400 targets with dependencies, each made without a shell.
define scheme
(define (spread n)
  (let loop ((i 0) (all '()))
    (if (= i n) all (loop (+ i 1) (cons (string-append "item" (number->string i)) all)))))
(define (sum-of n)
  (let loop ((i 0) (kept '()) (sum 0))
    (if (= i n)
        sum
        (loop (+ i 1) (if (= 0 (modulo i 50)) (list (make-vector 30 i) kept) kept)
              (modulo (+ sum (length (iota (modulo i 40)))) 10007)))))
(define table (make-hash-table))
(define (remember! n)
  (do ((i 0 (+ i 1))) ((= i n))
    (hash-set! table (string-append "key" (number->string (modulo (* i 7) 503))) (list i (number->string i))))
  (hash-count (const #t) table))
(define (rule n)
  (gmk-eval (string-append "target" (number->string n) ": "
    (if (= n 0) "" (string-append "target" (number->string (quotient n 2))))
    " ; @$$(info made target" (number->string n) " of $$(guile (sum-of " (number->string (+ 100 n)) ")))"))
  #f)
endef
$(guile $(scheme))
$(guile (for-each rule (iota 400)))

.DEFAULT_GOAL := all
.PHONY: all
all: $(guile (map (lambda (n) (string-append "target" (number->string n))) (iota 400)))
	@$(info table: $(guile (remember! 60000)))
	@$(info sum: $(guile (sum-of 200000)))
	@$(info words: $(words $(guile (spread 5000))))
	@$(info expanded: $(guile (string-length (gmk-expand "$$(sort $$(guile (spread 3000)))"))))
