;;; Guile: guardians. A guardian returns each dead object at most once and with its contents, never
;;; a living one; an object that was saved can be guarded again; cycles come back too; an object
;;; guarded by two guardians comes back from both. At most one in ten may be missing (the stack
;;; is conservative). Exits 1 when wrong.

(use-modules (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define total 3000)

(define (scrub depth)
  (if (zero? depth) 0 (+ 1 (scrub (- depth 1)))))

;; Everything the guardian returns until several collections bring nothing new.
(define (drain guardian)
  (let collect ((quiet 0) (found '()))
    (scrub 2000)
    (gc)
    (let ((new (let next ((new '()))
                 (let ((object (guardian)))
                   (if object (next (cons object new)) new)))))
      (cond
       ((pair? new) (collect 0 (append new found)))
       ((< quiet 3) (collect (+ quiet 1) found))
       (else found)))))

(define (check-batch what found id expected-low expected-high)
  (let* ((ids (sort (map id found) <))
         (distinct (delete-duplicates ids =)))
    (unless (= (length ids) (length distinct)) (fail what 'returned-twice))
    (when (< (length ids) expected-low) (fail what 'too-few (length ids)))
    (when (> (length ids) expected-high) (fail what 'too-many (length ids)))
    (format #t "~a: returned once each~%" what)))

;; Half of the objects stay alive.
(define guardian (make-guardian))
(define (make-batch!)
  (let loop ((i 0) (kept '()))
    (if (= i total)
        kept
        (let ((object (list i (number->string i) (vector i (* 2 i)))))
          (guardian object)
          (loop (+ i 1) (if (even? i) (cons object kept) kept))))))

(define (whole? object)
  (and (equal? (number->string (car object)) (cadr object))
       (equal? (vector (car object) (* 2 (car object))) (caddr object))))

(define kept (make-batch!))
(define dead (drain guardian))
(unless (every whole? dead) (fail 'contents))
(unless (every (lambda (object) (odd? (car object))) dead) (fail 'returned-a-living-object))
(check-batch 'dead-half dead car (- (quotient total 2) (quotient total 10)) (quotient total 2))

;; Saved objects are ordinary objects: guard them again, drop them, get them back again.
(define saved-count (length dead))
(for-each guardian dead)
(set! dead '())
(define again (drain guardian))
(unless (every whole? again) (fail 'contents-again))
(check-batch 'guarded-again again car (- saved-count (quotient total 10)) saved-count)

;; The living half is still alive and still guarded: let it go now.
(unless (every whole? kept) (fail 'kept-contents))
(set! kept '())
(set! again '())
(define rest (drain guardian))
(check-batch 'other-half rest car (- (quotient total 2) (quotient total 10))
             (+ (quotient total 2) (quotient total 10)))

;; Cycles: two pairs that point at each other, both guarded.
(define cycles (make-guardian))
(define (make-cycles! n)
  (let loop ((i 0))
    (when (< i n)
      (let* ((a (list (* 2 i) #f)) (b (list (+ 1 (* 2 i)) a)))
        (set-car! (cdr a) b)
        (cycles a)
        (cycles b)
        (loop (+ i 1))))))
(make-cycles! 500)
(define cyclic (drain cycles))
(unless (every (lambda (pair) (eq? pair (cadr (cadr pair)))) cyclic) (fail 'cycle-broken))
(check-batch 'cycles cyclic car 900 1000)

;; Two guardians over the same objects.
(define first-guardian (make-guardian))
(define second-guardian (make-guardian))
(define (guard-twice! n)
  (let loop ((i 0))
    (when (< i n)
      (let ((object (list i)))
        (first-guardian object)
        (second-guardian object)
        (loop (+ i 1))))))
(guard-twice! 500)
(define from-first (drain first-guardian))
(define from-second (drain second-guardian))
(check-batch 'first-guardian from-first car 450 500)
(check-batch 'second-guardian from-second car 450 500)
