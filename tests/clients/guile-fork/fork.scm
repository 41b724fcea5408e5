;;; Guile: fork. Children check the heap they inherited, change their copy, collect, and answer
;;; through a pipe; the parent's heap must not notice. Children fork children of their own. Exits 1
;;; when wrong.

(use-modules (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-_exit 1))

(define size 20000)
(define table (make-hash-table size))
(for-each (lambda (i) (hashv-set! table i (list i (number->string i) (vector i (+ i 1))))) (iota size))

(define (check-table! who)
  (hash-for-each
   (lambda (key value)
     (unless (and (= key (car value)) (string=? (number->string key) (cadr value))
                  (= (+ key 1) (vector-ref (caddr value) 1)))
       (fail who 'entry key value)))
   table))

(define (churn n)
  (let loop ((i 0) (last '()))
    (if (= i n) (length last) (loop (+ i 1) (list i (make-vector 8 i) i)))))

(define (work-in-child id depth)
  (check-table! 'child)
  (churn 100000)
  (gc)
  (hash-for-each (lambda (key value) (vector-set! (caddr value) 0 (list id key))) table)
  (churn 100000)
  (gc)
  (check-table! 'child-after)
  (+ (hash-fold (lambda (key value sum) (+ sum (car (vector-ref (caddr value) 0)))) 0 table)
     (if (zero? depth) 0 (in-child (* 10 id) (- depth 1)))))

;; Runs work-in-child in a forked process and returns the number that it sends.
(define (in-child id depth)
  (let* ((ends (pipe)) (pid (primitive-fork)))
    (if (zero? pid)
        (begin
          (close-port (car ends))
          (write (work-in-child id depth) (cdr ends))
          (close-port (cdr ends))
          (primitive-_exit 0))
        (begin
          (close-port (cdr ends))
          (let ((answer (read (car ends))))
            (close-port (car ends))
            (unless (zero? (status:exit-val (cdr (waitpid pid)))) (fail 'child-status id))
            answer)))))

(let loop ((id 1))
  (when (<= id 6)
    (churn 50000)
    (let ((answer (in-child id 2)))
      (unless (= answer (* size (+ id (* 10 id) (* 100 id)))) (fail 'answer id answer))
      (format #t "child ~a and those after it: ~a~%" id answer))
    (check-table! 'parent)
    (gc)
    (loop (+ id 1))))

(unless (every (lambda (i) (eqv? i (vector-ref (caddr (hashv-ref table i)) 0))) (iota size))
  (fail 'parent-sees-a-child))
(format #t "the parent's table is unchanged~%")
