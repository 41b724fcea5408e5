;;; Guile: the compiler as a client. Expressions are made up, compiled in the process to bytecode
;;; that lives in the heap, run, and dropped; macros expand to macros; modules are loaded while
;;; there is live data; each result is compared with the evaluator's and with arithmetic done here.
;;; Exits 1 when wrong.

(use-modules (system base compile) (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what 'expected expected 'got got)))

(define (polynomial coefficients)
  `(lambda (x)
     (let loop ((cs ',coefficients) (sum 0))
       (if (null? cs) sum (loop (cdr cs) (+ (* sum x) (car cs)))))))

(define (value-at coefficients x)
  (fold (lambda (c sum) (+ (* sum x) c)) 0 coefficients))

;; Compiled procedures are kept in a table while later ones are compiled, some are dropped again.
(define procedures (make-hash-table))
(let loop ((i 0))
  (when (< i 120)
    (let* ((coefficients (map (lambda (k) (modulo (* (+ i 1) (+ k 3) 7919) 101)) (iota 8)))
           (source (polynomial coefficients))
           (compiled (compile source #:to 'value)))
      (hashv-set! procedures i (cons coefficients compiled))
      (check 'compiled (value-at coefficients 12) (compiled 12))
      (when (zero? (modulo i 6))
        (check 'evaluated (compiled 5) ((eval source (current-module)) 5)))
      (when (zero? (modulo i 3)) (hashv-remove! procedures (quotient i 3))))
    (loop (+ i 1))))
(gc)
(define sum
  (hash-fold (lambda (i entry sum)
               (let ((x (modulo i 17)))
                 (check 'kept (value-at (car entry) x) ((cdr entry) x))
                 (+ sum ((cdr entry) x))))
             0 procedures))
(format #t "compiled procedures: ~a kept, sum ~a~%" (hash-count (const #t) procedures) sum)

;; Macros: a state machine generator, nested quasi-quotation, hygiene.
(define machine
  '(let-syntax ((machine
                 (syntax-rules ()
                   ((_ start (state (symbol next) ...) ...)
                    (lambda (input)
                      (define (state rest)
                        (if (null? rest)
                            'state
                            (case (car rest)
                              ((symbol) (next (cdr rest))) ...
                              (else 'stuck))))
                      ...
                      (start input))))))
     (machine even (even (a odd) (b even)) (odd (a even) (b odd)))))
(define run (compile machine #:to 'value))
(check 'machine '(even odd stuck) (map run '((a b a b) (a b b) (a c))))
(format #t "macros: ~a~%" (map run '((a b a b) (a b b) (a c))))

;; Modules loaded late, their data used after a collection.
(for-each (lambda (name) (resolve-interface name))
          '((ice-9 match) (ice-9 regex) (ice-9 pretty-print) (srfi srfi-19) (srfi srfi-43)
            (sxml simple) (sxml xpath) (texinfo) (oop goops) (ice-9 peg) (web uri)))
(gc)
(define xml->sxml (module-ref (resolve-interface '(sxml simple)) 'xml->sxml))
(define sxpath (module-ref (resolve-interface '(sxml xpath)) 'sxpath))
(define document
  (string-append "<table>"
                 (string-concatenate
                  (map (lambda (i) (format #f "<row id=\"~a\"><cell>~a</cell></row>" i (* i i)))
                       (iota 1500)))
                 "</table>"))
(let ((cells ((sxpath '(// cell *text*)) (xml->sxml document))))
  (check 'cells (map (lambda (i) (number->string (* i i))) (iota 1500)) cells)
  (format #t "xml: ~a cells~%" (length cells)))

;; Objects of a class system that rewrites its dispatch code while the program runs.
(define goops (compile '(begin
  (use-modules (oop goops))
  (define-class <shape> () (size #:init-keyword #:size #:getter size))
  (define-class <square> (<shape>))
  (define-class <cube> (<square>))
  (define-method (measure (s <square>)) (* (size s) (size s)))
  (define-method (measure (c <cube>)) (* (size c) (next-method)))
  (lambda (n)
    (let loop ((i 0) (sum 0))
      (if (= i n)
          sum
          (loop (+ i 1)
                (+ sum (measure (make (if (even? i) <square> <cube>) #:size i)))))))) #:to 'value))
(check 'goops (fold (lambda (i sum) (+ sum (if (even? i) (* i i) (* i i i)))) 0 (iota 2000))
       (goops 2000))
(format #t "objects: ~a~%" (goops 2000))
