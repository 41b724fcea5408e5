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

;; Empties a list in place: a pointer to it that is left on the stack then holds nothing more.
(define (forget! items)
  (unless (null? items)
    (set-car! items #f)
    (forget! (cdr items))))

;; Guile links what a guardian returns in one list: a stale pointer to its first cell, in a register
;; or on the C stack of either thread, holds all the objects after it. So other objects die here and
;; are fetched in the same way, and C's stack is overwritten by a deep comparison.
(define diversion (make-guardian))
(define (nest depth) (if (zero? depth) '() (list (nest (- depth 1)))))
(define nested (cons (nest 1000) (nest 1000)))
(define (divert!)
  (let loop ((i 0))
    (when (< i 20)
      (diversion (list i))
      (loop (+ i 1))))
  (let next () (when (diversion) (next)))
  (unless (equal? (car nested) (cdr nested)) (fail 'nested)))

;; Everything the guardian returns until there are `enough` and a few collections bring nothing
;; new, or two seconds have gone; objects get there by Guile's finalizer thread, in its own time.
(define (drain guardian enough)
  (let collect ((tries 0) (quiet 0) (found '()) (count 0))
    (divert!)
    (scrub 2000)
    (gc)
    (let ((new (let next ((new '()))
                 (let ((object (guardian)))
                   (if object (next (cons object new)) new)))))
      (cond
       ((pair? new)
        ;; append copies `new` and shares `found`.
        (let ((all (append new found)) (more (length new)))
          (forget! new)
          (collect (+ tries 1) 0 all (+ count more))))
       ((and (>= count enough) (< quiet 3)) (collect tries (+ quiet 1) found count))
       ((and (< count enough) (< tries 200)) (usleep 10000) (collect (+ tries 1) 0 found count))
       (else found)))))

(define (check-batch what found id expected-low expected-high)
  (let* ((ids (sort (map id found) <))
         (distinct (delete-duplicates ids =)))
    (unless (= (length ids) (length distinct)) (fail what 'returned-twice))
    (when (< (length ids) expected-low) (fail what 'too-few (length ids)))
    (when (> (length ids) expected-high) (fail what 'too-many (length ids)))
    (format #t "~a: returned once each~%" what)))

;; Half of the objects stay alive. They come in batches, so that a stale pointer into the list of a
;; batch holds no more than that batch.
(define batch-size 150)
(define guardian (make-guardian))
(define (make-batch! start)
  (let loop ((i start) (kept '()))
    (if (= i (+ start batch-size))
        kept
        (let ((object (list i (number->string i) (vector i (* 2 i)))))
          (guardian object)
          (loop (+ i 1) (if (even? i) (cons object kept) kept))))))

(define (whole? object)
  (and (equal? (number->string (car object)) (cadr object))
       (equal? (vector (car object) (* 2 (car object))) (caddr object))))

(define kept '())
(define dead '())
(let loop ((start 0))
  (when (< start total)
    (set! kept (append (make-batch! start) kept))
    (set! dead (append (drain guardian (* 2/5 batch-size)) dead))
    (loop (+ start batch-size))))
(unless (every whole? dead) (fail 'contents))
(unless (every (lambda (object) (odd? (car object))) dead) (fail 'returned-a-living-object))
(check-batch 'dead-half dead car (- (quotient total 2) (quotient total 10)) (quotient total 2))

;; Saved objects are ordinary objects: guard them again, drop them, get them back again.
(define saved-count (length dead))
(for-each guardian dead)
(forget! dead)
(set! dead '())
(define again (drain guardian (- saved-count (quotient total 10))))
(unless (every whole? again) (fail 'contents-again))
(check-batch 'guarded-again again car (- saved-count (quotient total 10)) saved-count)

;; The living half is still alive and still guarded: let it go now.
(unless (every whole? kept) (fail 'kept-contents))
(forget! kept)
(forget! again)
(set! kept '())
(set! again '())
(define rest (drain guardian (- (quotient total 2) (quotient total 10))))
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
(define cyclic (drain cycles 900))
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
(define from-first (drain first-guardian 450))
(define from-second (drain second-guardian 450))
(check-batch 'first-guardian from-first car 450 500)
(check-batch 'second-guardian from-second car 450 500)
