;;; Guile: continuations. Captured stacks are heap objects that hold the only pointers to their
;;; data; collections happen while they are dormant. Generators by call/cc, coroutines by prompts,
;;; the order of dynamic-wind, exceptions through deep stacks, and recursion that grows Guile's own
;;; stack to a million frames. Exits 1 when wrong.

(use-modules (srfi srfi-1) (ice-9 control))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what 'expected expected 'got got)))

(define (churn n)
  (let loop ((i 0) (last '()))
    (if (= i n) (length last) (loop (+ i 1) (list i (make-string 20 #\x) last i)))))

;; Same fringe: two trees walked in step by generators made of full continuations.
(define (tree->generator tree)
  (define return #f)
  (define (start)
    (let walk ((node tree))
      (cond
       ((null? node) 'skip)
       ((pair? node) (walk (car node)) (walk (cdr node)))
       (else (call/cc (lambda (rest)
                        (set! start (lambda () (rest 'resumed)))
                        (return node))))))
    (return 'end))
  (lambda () (call/cc (lambda (caller) (set! return caller) (start)))))

(define (left-tree n) (fold (lambda (i tree) (cons tree i)) '() (iota n)))
(define (right-tree n) (iota n))

(define (same-fringe? a b)
  (let ((next-a (tree->generator a)) (next-b (tree->generator b)))
    (let loop ((count 0))
      (let ((x (next-a)) (y (next-b)))
        (when (zero? (modulo count 100)) (gc))
        (cond
         ((not (equal? x y)) (list 'differ count))
         ((eq? x 'end) (list 'same count))
         (else (loop (+ count 1))))))))

(format #t "fringe: ~a ~a~%"
        (same-fringe? (left-tree 400) (right-tree 400))
        (same-fringe? (left-tree 400) (append (iota 300) (list 'odd) (iota 99))))

;; Delimited continuations: a thousand coroutines, each with its own data only on its stack.
(define (make-coroutine id)
  (lambda ()
    (let ((data (map (lambda (i) (list id i (number->string (* id i)))) (iota 30))))
      (let loop ((round 0) (sum 0))
        (if (= round 6)
            sum
            (let ((given (abort-to-prompt 'yield)))
              (let ((item (list-ref data (modulo (+ round id) 30))))
                (check 'coroutine (list id (cadr item) (number->string (* id (cadr item)))) item)
                (loop (+ round 1) (+ sum given (cadr item))))))))))

(define (step coroutine value)
  (call-with-prompt 'yield
    (lambda () (if (eq? value 'first) (coroutine) (coroutine value)))
    (lambda (continuation) continuation)))

(let rounds ((round 0) (running (map (lambda (id) (step (make-coroutine id) 'first)) (iota 1000))))
  (churn 20000)
  (gc)
  (if (procedure? (car running))
      (rounds (+ round 1) (map (lambda (coroutine) (step coroutine round)) running))
      (begin
        (check 'sums (fold + 0 (map (lambda (id)
                                      (+ 15 (fold + 0 (map (lambda (r) (modulo (+ r id) 30))
                                                           (iota 6)))))
                                    (iota 1000)))
               (fold + 0 running))
        (format #t "coroutines: ~a rounds, sum ~a~%" round (fold + 0 running)))))

;; The order of dynamic-wind when a continuation is entered again from outside, twice.
(define trace '())
(define (note! what) (set! trace (cons what trace)))
(define again #f)
(define visits 0)
(dynamic-wind
  (lambda () (note! 'in))
  (lambda ()
    (let ((held (map number->string (iota 1000))))
      (call/cc (lambda (k) (set! again k)))
      (gc)
      (check 'held (map number->string (iota 1000)) held)
      (note! 'body)))
  (lambda () (note! 'out)))
(set! visits (+ visits 1))
(when (< visits 3) (churn 50000) (again 'again))
(check 'winds '(in body out in body out in body out) (reverse trace))
(format #t "winds: ~a~%" (reverse trace))

;; Exceptions thrown through deep stacks, with a collection in every handler.
(define (deep-throw depth payload)
  (if (zero? depth)
      (throw 'bottom payload)
      (let ((result (deep-throw (- depth 1) (cons depth payload))))
        (cons 'never result))))
(format #t "exceptions: ~a~%"
        (fold + 0
              (map (lambda (i)
                     (catch 'bottom
                       (lambda () (deep-throw (* 100 i) '()))
                       (lambda (key payload)
                         (when (zero? (modulo i 10)) (gc))
                         (check 'payload (iota (* 100 i) 1) payload)
                         (length payload))))
                   (iota 40))))

;; A million frames, each holding a fresh pair that nothing else holds.
(define (deep n)
  (if (zero? n)
      (begin (gc) '())
      (let ((mine (cons n (- n))))
        (let ((rest (deep (- n 1))))
          (unless (= (car mine) (- (cdr mine))) (fail 'frame n))
          (cons mine rest)))))
(let ((result (deep 1000000)))
  (check 'deep (/ (* 1000000 1000001) 2) (fold + 0 (map car result)))
  (format #t "deep recursion: ~a frames~%" (length result)))

;; A continuation captured deep inside is resumed many times; each resumption copies its stack.
(define resumed 0)
(define (deep-capture n)
  (if (zero? n)
      (call/cc (lambda (k) k))
      (let* ((mine (list n)) (value (deep-capture (- n 1))))
        (check 'mine n (car mine))
        value)))
(let ((k (deep-capture 10000)))
  (when (procedure? k)
    (set! resumed (+ resumed 1))
    (gc)
    (k (if (< resumed 20) k 'done))))
(format #t "resumed ~a times~%" resumed)
