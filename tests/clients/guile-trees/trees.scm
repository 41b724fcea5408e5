;;; Guile, one thread: the trees client. Perfect binary trees are built and dropped while one of
;;; them lives through the whole run; a persistent AVL map is updated with every old version
;;; becoming garbage, and is compared with a plain vector at the end. Prints checksums, exits 1
;;; when a count or a lookup is wrong.

(use-modules (srfi srfi-9))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what 'expected expected 'got got)))

;; Part 1: perfect binary trees; a node is a pair of subtrees, a leaf is a pair of empty lists.
(define (make-tree depth)
  (if (zero? depth)
      (cons '() '())
      (cons (make-tree (- depth 1)) (make-tree (- depth 1)))))

(define (count-nodes tree)
  (if (null? (car tree))
      1
      (+ 1 (count-nodes (car tree)) (count-nodes (cdr tree)))))

(define deepest 19)
(define long-lived (make-tree deepest))

(let loop ((depth 4))
  (when (<= depth deepest)
    (let* ((rounds (ash 1 (- deepest depth -5)))
           (nodes (let again ((i 0) (sum 0))
                    (if (= i rounds)
                        sum
                        (again (+ i 1) (+ sum (count-nodes (make-tree depth))))))))
      (check 'nodes (* rounds (- (ash 1 (+ depth 1)) 1)) nodes)
      (format #t "~a trees of depth ~a: ~a nodes~%" rounds depth nodes))
    (loop (+ depth 4))))

;; Part 2: a persistent AVL map from integers to records of a string and a number.
(define-record-type <node>
  (make-node key value height left right)
  node?
  (key node-key) (value node-value) (height node-height) (left node-left) (right node-right))

(define-record-type <entry>
  (make-entry text number)
  entry?
  (text entry-text) (number entry-number))

(define (height node) (if node (node-height node) 0))

(define (join key value left right)
  (make-node key value (+ 1 (max (height left) (height right))) left right))

(define (rotate-right key value left right)
  (join (node-key left) (node-value left) (node-left left)
        (join key value (node-right left) right)))

(define (rotate-left key value left right)
  (join (node-key right) (node-value right)
        (join key value left (node-left right)) (node-right right)))

(define (balance key value left right)
  (let ((difference (- (height left) (height right))))
    (cond
     ((> difference 1)
      (if (>= (height (node-left left)) (height (node-right left)))
          (rotate-right key value left right)
          (rotate-right key value
                        (rotate-left (node-key left) (node-value left)
                                     (node-left left) (node-right left))
                        right)))
     ((< difference -1)
      (if (>= (height (node-right right)) (height (node-left right)))
          (rotate-left key value left right)
          (rotate-left key value left
                       (rotate-right (node-key right) (node-value right)
                                     (node-left right) (node-right right)))))
     (else (join key value left right)))))

(define (insert node key value)
  (cond
   ((not node) (join key value #f #f))
   ((< key (node-key node))
    (balance (node-key node) (node-value node) (insert (node-left node) key value)
             (node-right node)))
   ((> key (node-key node))
    (balance (node-key node) (node-value node) (node-left node)
             (insert (node-right node) key value)))
   (else (join key value (node-left node) (node-right node)))))

(define (smallest node) (if (node-left node) (smallest (node-left node)) node))

(define (remove node key)
  (cond
   ((not node) #f)
   ((< key (node-key node))
    (balance (node-key node) (node-value node) (remove (node-left node) key) (node-right node)))
   ((> key (node-key node))
    (balance (node-key node) (node-value node) (node-left node) (remove (node-right node) key)))
   ((not (node-left node)) (node-right node))
   ((not (node-right node)) (node-left node))
   (else
    (let ((next (smallest (node-right node))))
      (balance (node-key next) (node-value next) (node-left node)
               (remove (node-right node) (node-key next)))))))

(define (lookup node key)
  (cond
   ((not node) #f)
   ((< key (node-key node)) (lookup (node-left node) key))
   ((> key (node-key node)) (lookup (node-right node) key))
   (else (node-value node))))

(define keys 80000)
(define steps 1000000)
(define shadow (make-vector keys #f))

(define (next-random state) (modulo (+ (* state 1103515245) 12345) 2147483648))

(define final-map
  (let loop ((step 0) (state 42) (tree #f))
    (if (= step steps)
        tree
        (let* ((state (next-random state))
               (key (modulo (quotient state 64) keys)))
          (if (zero? (modulo step 4))
              (begin
                (vector-set! shadow key #f)
                (loop (+ step 1) state (remove tree key)))
              (begin
                (vector-set! shadow key step)
                (loop (+ step 1) state
                      (insert tree key (make-entry (number->string step 36) step)))))))))

(let loop ((key 0) (present 0) (sum 0))
  (if (< key keys)
      (let ((expected (vector-ref shadow key))
            (entry (lookup final-map key)))
        (cond
         ((and expected entry)
          (check 'number expected (entry-number entry))
          (check 'text (number->string expected 36) (entry-text entry))
          (loop (+ key 1) (+ present 1) (+ sum expected)))
         ((or expected entry) (fail 'presence key expected entry))
         (else (loop (+ key 1) present sum))))
      (format #t "map: ~a entries, height ~a, sum ~a~%" present (height final-map) sum)))

(check 'long-lived (- (ash 1 (+ deepest 1)) 1) (count-nodes long-lived))
(format #t "the long-lived tree is whole~%")
