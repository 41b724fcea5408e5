;; Symbolic differentiation and simplification, tables of vectors, strings and deep recursion: what
;; stalin makes of it allocates by libgc. It prints a line for each part.
(define (simplify-sum a b)
  (cond ((and (number? a) (number? b)) (+ a b))
        ((and (number? a) (= a 0)) b)
        ((and (number? b) (= b 0)) a)
        (else (list '+ a b))))

(define (simplify-product a b)
  (cond ((and (number? a) (number? b)) (* a b))
        ((and (number? a) (= a 0)) 0)
        ((and (number? b) (= b 0)) 0)
        ((and (number? a) (= a 1)) b)
        ((and (number? b) (= b 1)) a)
        (else (list '* a b))))

(define (derive expression)
  (cond ((number? expression) 0)
        ((symbol? expression) 1)
        ((eq? (car expression) '+)
         (simplify-sum (derive (cadr expression)) (derive (caddr expression))))
        (else
         (simplify-sum (simplify-product (derive (cadr expression)) (caddr expression))
                       (simplify-product (cadr expression) (derive (caddr expression)))))))

(define (polynomial degree)
  (if (= degree 0) 1 (list '+ degree (list '* 'x (polynomial (- degree 1))))))

(define (value expression x)
  (cond ((number? expression) expression)
        ((symbol? expression) x)
        ((eq? (car expression) '+)
         (remainder (+ (value (cadr expression) x) (value (caddr expression) x)) 10007))
        (else (remainder (* (value (cadr expression) x) (value (caddr expression) x)) 10007))))

(define (size expression)
  (if (pair? expression)
      (+ 1 (size (cadr expression)) (size (caddr expression)))
      1))

(define (differentiate rounds)
  (let loop ((round 0) (sum 0))
    (if (= round rounds)
        sum
        (let ((derived (derive (derive (polynomial (+ 10 (remainder round 30)))))))
          (loop (+ round 1) (remainder (+ sum (size derived) (value derived 3)) 10007))))))

(define (make-tree depth)
  (if (= depth 0) '() (cons (make-tree (- depth 1)) (make-tree (- depth 1)))))

(define (count-tree tree)
  (if (null? tree) 1 (+ (count-tree (car tree)) (count-tree (cdr tree)))))

(define (sort-list items)
  (if (or (null? items) (null? (cdr items)))
      items
      (let split ((rest (cdr items)) (low '()) (high '()))
        (cond ((null? rest)
               (append (sort-list low) (list (car items)) (sort-list high)))
              ((< (car rest) (car items)) (split (cdr rest) (cons (car rest) low) high))
              (else (split (cdr rest) low (cons (car rest) high)))))))

(define (numbers count seed)
  (if (= count 0)
      '()
      (cons seed (numbers (- count 1) (remainder (+ (* seed 129) 71) 9973)))))

(define (words count)
  (let loop ((i 0) (all '()))
    (if (= i count)
        all
        (loop (+ i 1) (cons (string-append "word" (number->string i)) all)))))

(define long-lived (make-tree 14))

(display "derivatives: ") (display (differentiate 4000)) (newline)
(let loop ((i 0) (sum 0))
  (if (= i 60)
      (begin (display "trees: ") (display sum) (newline))
      (loop (+ i 1) (+ sum (count-tree (make-tree 12))))))
(let* ((sorted (sort-list (numbers 20000 1)))
       (table (list->vector sorted)))
  (display "sorted: ") (display (vector-ref table 0)) (display " ")
  (display (vector-ref table 10000)) (display " ") (display (vector-ref table 19999)) (newline))
(let loop ((all (words 20000)) (letters 0))
  (if (null? all)
      (begin (display "letters: ") (display letters) (newline))
      (loop (cdr all) (+ letters (string-length (car all))))))
(display "the long-lived tree: ") (display (count-tree long-lived)) (newline)
