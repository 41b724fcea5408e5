;;; Guile: finalizers. A foreign pointer's finalizer runs once, after the pointer died, with the
;;; address it was made of; memory of malloc is freed by its finalizer; a dropped file port gives
;;; its descriptor back. At most one in ten may be late (the stack is conservative). Exits 1 when wrong.

(use-modules (system foreign) (srfi srfi-1) (ice-9 atomic) (ice-9 ftw) (ice-9 threads))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (scrub depth)
  (if (zero? depth) 0 (+ 1 (scrub (- depth 1)))))

;; Collects until (enough?) or about two seconds have gone; finalizers run in their own thread.
(define (collect-until enough?)
  (let loop ((tries 0))
    (scrub 2000)
    (gc)
    (cond
     ((enough?) #t)
     ((= tries 100) #f)
     (else (usleep 20000) (loop (+ tries 1))))))

;; Finalizers that call back into Scheme and note the address in a table of counts.
(define total 1000)
(define base #x100000)
(define seen (make-vector total 0))
(define seen-mutex (make-mutex))
(define ran (make-atomic-box 0))

(define note!
  (procedure->pointer void
                      (lambda (pointer)
                        (let ((index (- (pointer-address pointer) base)))
                          (lock-mutex seen-mutex)
                          (vector-set! seen index (+ 1 (vector-ref seen index)))
                          (atomic-box-set! ran (+ 1 (atomic-box-ref ran)))
                          (unlock-mutex seen-mutex)))
                      '(*)))

(define (make-pointers!)
  (let loop ((i 0) (kept '()))
    (if (= i total)
        kept
        (let ((pointer (make-pointer (+ base i) note!)))
          (loop (+ i 1) (if (zero? (modulo i 4)) (cons pointer kept) kept))))))

(define kept (make-pointers!))
(define droppable (- total (length kept)))
(unless (collect-until (lambda () (>= (atomic-box-ref ran) (- droppable (quotient total 10)))))
  (fail 'finalizers-ran (atomic-box-ref ran) 'of droppable))
(let loop ((i 0))
  (when (< i total)
    (when (> (vector-ref seen i) 1) (fail 'ran-twice i))
    (when (and (zero? (modulo i 4)) (> (vector-ref seen i) 0)) (fail 'ran-for-a-living-one i))
    (loop (+ i 1))))
(for-each (lambda (pointer i)
            (unless (= (pointer-address pointer) (+ base i)) (fail 'kept-pointer i)))
          (reverse kept) (iota (length kept) 0 4))
(format #t "pointers: finalized once each, the living ones not~%")

;; The rest may go as well; the list is emptied in place, so that a pointer to it that is left on
;; the stack holds nothing more.
(let forget! ((items kept))
  (unless (null? items)
    (set-car! items #f)
    (forget! (cdr items))))
(set! kept '())
(unless (collect-until (lambda () (>= (atomic-box-ref ran) (- total (quotient total 10)))))
  (fail 'rest-ran (atomic-box-ref ran)))
(format #t "pointers: the rest, too~%")

;; Memory of malloc, freed by its pointer's finalizer: 200 blocks of 1 MiB, twenty times over,
;; written at both ends. Without finalizers this is 4 GB.
(define malloc (pointer->procedure '* (dynamic-func "malloc" (dynamic-link)) (list size_t)))
(define free-function (dynamic-func "free" (dynamic-link)))
(define mebibyte 1048576)
(define (resident-kilobytes)
  (call-with-input-file "/proc/self/statm"
    (lambda (port) (read port) (* 4 (read port)))))
(define (use-blocks! n)
  (let loop ((i 0) (sum 0))
    (if (= i n)
        sum
        (let* ((raw (malloc mebibyte))
               (block (make-pointer (pointer-address raw) free-function))
               (bytes (pointer->bytevector block mebibyte)))
          (array-set! bytes (modulo i 256) 0)
          (array-set! bytes (modulo (* 7 i) 256) (- mebibyte 1))
          (unless (and (= (modulo i 256) (array-ref bytes 0))
                       (= (modulo (* 7 i) 256) (array-ref bytes (- mebibyte 1))))
            (fail 'foreign-memory-contents i))
          (loop (+ i 1) (+ sum (array-ref bytes 0) (array-ref bytes (- mebibyte 1))))))))
(define sum
  (let loop ((round 0) (sum 0))
    (if (= round 20)
        sum
        (let ((part (use-blocks! 200)))
          (scrub 2000)
          (gc)
          (usleep 5000)
          (loop (+ round 1) (+ sum part))))))
(unless (collect-until (lambda () (< (resident-kilobytes) (* 400 1024))))
  (fail 'foreign-memory-not-freed (resident-kilobytes)))
(format #t "foreign memory: sum ~a, given back~%" sum)

;; Ports: files opened, read and dropped. Far more than the limit of open descriptors allows.
(define (open-descriptors) (length (or (scandir "/proc/self/fd") '())))
(define at-start (open-descriptors))
(define (open-and-drop! n)
  (let loop ((i 0) (characters 0))
    (if (= i n)
        characters
        (let ((port (open-input-file "/proc/self/stat")))
          (read-char port)
          (loop (+ i 1) (+ characters 1))))))
(setrlimit 'nofile 400 400)
(define characters
  (let loop ((round 0) (characters 0))
    (if (= round 20)
        characters
        (let ((part (open-and-drop! 100)))
          (unless (collect-until (lambda () (< (open-descriptors) (+ at-start 60))))
            (fail 'descriptors-not-closed (open-descriptors)))
          (loop (+ round 1) (+ characters part))))))
(format #t "ports: ~a characters from as many dropped files~%" characters)
