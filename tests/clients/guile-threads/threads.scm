;;; Guile, four threads: the threads client. Each worker keeps a table of records alive, replaces
;;; entries, sorts and concatenates strings, and takes its orders from one shared queue guarded by
;;; a mutex and a condition variable; what it produces goes through a second queue to the main
;;; thread. Sums do not depend on the order in which the threads run. Exits 1 when one is wrong.

(use-modules (ice-9 threads) (srfi srfi-1) (srfi srfi-9))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what 'expected expected 'got got)))

;; A queue: a pair of lists, a mutex and a condition variable.
(define-record-type <queue>
  (make-queue front back mutex filled)
  queue?
  (front queue-front set-queue-front!) (back queue-back set-queue-back!)
  (mutex queue-mutex) (filled queue-filled))

(define (new-queue) (make-queue '() '() (make-mutex) (make-condition-variable)))

(define (put! queue item)
  (with-mutex (queue-mutex queue)
    (set-queue-back! queue (cons item (queue-back queue)))
    (signal-condition-variable (queue-filled queue))))

(define (take! queue)
  (with-mutex (queue-mutex queue)
    (let wait ()
      (when (null? (queue-front queue))
        (set-queue-front! queue (reverse (queue-back queue)))
        (set-queue-back! queue '()))
      (if (null? (queue-front queue))
          (begin
            (wait-condition-variable (queue-filled queue) (queue-mutex queue))
            (wait))
          (let ((item (car (queue-front queue))))
            (set-queue-front! queue (cdr (queue-front queue)))
            item)))))

(define-record-type <record>
  (make-record name fields weight)
  record?
  (name record-name) (fields record-fields) (weight record-weight))

(define (new-record key step)
  (make-record (string-append "record-" (number->string key) "-" (number->string step))
               (list key step (vector key step (* key step)))
               (+ key step)))

(define table-size 56000)
(define rounds 14)

;; One order: a seed. Replaces a third of the table, then sums it by walking every record.
(define (work! table seed)
  (let loop ((i 0) (state seed))
    (when (< i (quotient table-size 3))
      (let* ((state (modulo (+ (* state 69069) 1) 4294967296))
             (key (modulo (quotient state 16) table-size)))
        (hashv-set! table key (new-record key seed))
        (loop (+ i 1) state))))
  (let* ((names (hash-fold (lambda (key record names)
                             (if (zero? (modulo key 16)) (cons (record-name record) names) names))
                           '() table))
         (sorted (sort names string<?))
         (text (string-join sorted " ")))
    (list seed
          (string-length text)
          (hash-fold (lambda (key record sum)
                       (check 'key key (car (record-fields record)))
                       (check 'weight (record-weight record)
                              (+ key (vector-ref (caddr (record-fields record)) 1)))
                       (+ sum (record-weight record)))
                     0 table))))

(define orders (new-queue))
(define results (new-queue))
(define workers 4)

;; A table belongs to an order stream, not to a thread: stream s, round r is done after round r-1
;; of s by whichever thread takes it, so the outcome is the same whatever the scheduling.
(define (worker)
  (let loop ((done 0))
    (let ((order (take! orders)))
      (if (eq? order 'stop)
          done
          (let ((stream (car order)) (round (cadr order)) (table (caddr order)))
            (put! results (cons stream (cons round (work! table (+ (* 1000 stream) round)))))
            (if (< (+ round 1) rounds)
                (put! orders (list stream (+ round 1) table))
                (put! results 'finished))
            (loop (+ done 1)))))))

(define threads (map (lambda (i) (call-with-new-thread worker)) (iota workers)))

(define (fresh-table)
  (let ((table (make-hash-table table-size)))
    (for-each (lambda (key) (hashv-set! table key (new-record key 0))) (iota table-size))
    table))

(for-each (lambda (stream) (put! orders (list stream 0 (fresh-table)))) (iota workers))

(define collected
  (let loop ((finished 0) (collected '()))
    (if (= finished workers)
        collected
        (let ((result (take! results)))
          (if (eq? result 'finished)
              (loop (+ finished 1) collected)
              (loop finished (cons result collected)))))))

(for-each (lambda (thread) (put! orders 'stop)) threads)
(define done (map join-thread threads))
(check 'orders (* workers rounds) (apply + done))
(check 'results (* workers rounds) (length collected))

;; The same orders again, one after another in this thread, for half the streams.
(define sorted
  (sort collected (lambda (a b) (or (< (car a) (car b))
                                    (and (= (car a) (car b)) (< (cadr a) (cadr b)))))))
(let ((table (fresh-table)))
  (for-each (lambda (result)
              (when (= (car result) 1)
                (check 'replay (cddr result) (work! table (+ 1000 (cadr result))))))
            sorted))

(for-each (lambda (result)
            (when (= (cadr result) (- rounds 1))
              (format #t "stream ~a after ~a rounds: ~s~%" (car result) rounds (cddr result))))
          sorted)
(format #t "~a orders, sum ~a~%" (length sorted) (fold + 0 (map last sorted)))
