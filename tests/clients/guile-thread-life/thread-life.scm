;;; Guile: the life of threads. Hundreds are made and end; some sit in a blocking read, sleep or
;;; wait on a condition while others collect, and find what was on their stacks whole afterwards;
;;; fluids and parameters are each thread's own; a thread is cancelled; an exception ends one.
;;; Exits 1 when wrong.

(use-modules (ice-9 threads) (ice-9 rdelim) (ice-9 atomic) (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what 'expected expected 'got got)))

(define (churn n)
  (let loop ((i 0) (last '()))
    (if (= i n) (length last) (loop (+ i 1) (list i (make-string 10 #\x) i)))))

(define (fresh id n) (map (lambda (i) (cons (* id i) (number->string (* id i)))) (iota n)))

;; Short-lived threads, eight at a time; the result is reachable from the thread object alone.
(define (batch start)
  (let ((threads (map (lambda (i)
                        (call-with-new-thread
                         (lambda () (churn 2000) (fresh (+ start i) 50))))
                      (iota 8))))
    (churn 5000)
    (map (lambda (i thread)
           (let ((result (join-thread thread)))
             (check 'thread-result (fresh (+ start i) 50) result)
             (length result)))
         (iota 8) threads)))
(format #t "short-lived: ~a~%"
        (let loop ((round 0) (sum 0))
          (if (= round 40)
              sum
              (begin
                (when (zero? (modulo round 10)) (gc))
                (loop (+ round 1) (apply + sum (batch (* 8 round))))))))

;; Threads that block in read(2) holding data on their stacks; the main thread collects meanwhile.
(define (blocked-reader id ends ready)
  (call-with-new-thread
   (lambda ()
     (let ((mine (fresh id 500)))
       (atomic-box-set! ready #t)
       (let ((order (read-line (car ends))))
         (check 'blocked-data (fresh id 500) mine)
         (string-append order ":" (cdr (last mine))))))))
(let* ((pipes (map (lambda (i) (pipe)) (iota 6)))
       (flags (map (lambda (i) (make-atomic-box #f)) (iota 6)))
       (threads (map blocked-reader (iota 6 1) pipes flags)))
  (let wait () (unless (every atomic-box-ref flags) (usleep 1000) (wait)))
  (let loop ((i 0)) (when (< i 10) (churn 50000) (gc) (loop (+ i 1))))
  (for-each (lambda (ends i)
              (format (cdr ends) "go ~a~%" i)
              (force-output (cdr ends)))
            pipes (iota 6))
  (format #t "blocked: ~a~%" (map join-thread threads)))

;; A condition variable passes fresh lists back and forth between two threads.
(define mutex (make-mutex))
(define changed (make-condition-variable))
(define ball #f)
(define turn 'ping)
(define (play me other rounds)
  (let loop ((round 0) (sum 0))
    (if (= round rounds)
        sum
        (begin
          (lock-mutex mutex)
          (let wait ()
            (unless (eq? turn me) (wait-condition-variable changed mutex) (wait)))
          (let ((got (if ball (length ball) 0)))
            (set! ball (fresh round (modulo round 40)))
            (set! turn other)
            (broadcast-condition-variable changed)
            (unlock-mutex mutex)
            (loop (+ round 1) (+ sum got)))))))
(let* ((pong (call-with-new-thread (lambda () (play 'pong 'ping 3000))))
       (ping-sum (play 'ping 'pong 3000))
       (pong-sum (join-thread pong)))
  (check 'pong (fold + 0 (map (lambda (r) (modulo r 40)) (iota 3000))) pong-sum)
  (format #t "ping-pong: ~a ~a~%" ping-sum pong-sum))

;; Fluids and parameters belong to their thread.
(define place (make-parameter 'main))
(define fluid (make-fluid 'none))
(define (own-values id)
  (call-with-new-thread
   (lambda ()
     (parameterize ((place (list 'thread id)))
       (with-fluids ((fluid (fresh id 20)))
         (churn 20000)
         (check 'parameter (list 'thread id) (place))
         (check 'fluid (fresh id 20) (fluid-ref fluid))
         id)))))
(let ((threads (map own-values (iota 20))))
  (gc)
  (check 'own-values (iota 20) (map join-thread threads))
  (check 'main-parameter 'main (place))
  (check 'main-fluid 'none (fluid-ref fluid)))
(format #t "fluids and parameters: each its own~%")

;; A cancelled thread runs its dynamic-wind exit; one that throws ends with its handler's value.
(define cleaned (make-atomic-box #f))
(define started (make-atomic-box #f))
(let ((thread (call-with-new-thread
               (lambda ()
                 (dynamic-wind
                   (const #t)
                   (lambda () (atomic-box-set! started #t) (let loop () (usleep 1000) (loop)))
                   (lambda () (atomic-box-set! cleaned #t)))))))
  (let wait () (unless (atomic-box-ref started) (usleep 1000) (wait)))
  (gc)
  (cancel-thread thread 'cancelled)
  (check 'cancelled 'cancelled (join-thread thread))
  (check 'cleaned #t (atomic-box-ref cleaned)))
(let ((thread (call-with-new-thread
               (lambda () (throw 'trouble (fresh 3 10)))
               (lambda (key payload) (gc) (list key (length payload))))))
  (check 'thrown '(trouble 10) (join-thread thread)))
(format #t "cancelled and thrown: as they should~%")

;; A wait that times out, while the other thread is still working.
(let* ((go (make-atomic-box #f))
       (thread (call-with-new-thread
                (lambda () (let loop () (if (atomic-box-ref go) 'done (begin (usleep 500) (loop))))))))
  (lock-mutex mutex)
  (let ((now (gettimeofday)))
    (check 'timeout #f
           (wait-condition-variable changed mutex (cons (car now) (cdr now)))))
  (unlock-mutex mutex)
  (gc)
  (atomic-box-set! go #t)
  (check 'joined 'done (join-thread thread)))

;; Parallel maps by the library itself.
(format #t "par-map: ~a~%" (fold + 0 (par-map (lambda (i) (length (fresh i 500))) (iota 60))))
