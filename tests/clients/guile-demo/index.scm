;;; Guile: the demonstration. Made-up articles are written as strings, split into words and indexed
;;; in hash tables by four threads; the tables are merged into one; a persistent search tree is built
;;; over the words, and the threads answer questions with it while articles come and go. What the
;;; tree answers is compared with the articles themselves. Exits 1 when wrong.

(use-modules (ice-9 threads) (srfi srfi-1) (srfi srfi-9))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what 'expected expected 'got got)))

(define threads 4)
(define articles 20000)
(define words-each 60)
(define vocabulary-size 9000)

(define (next-random state) (modulo (+ (* state 1103515245) 12345) 2147483648))

;; Words of three to five syllables; the low numbers are the frequent ones.
(define syllables #("ba" "ko" "li" "mu" "ne" "pa" "ro" "si" "tu" "ve" "wa" "xi" "yo" "za" "que" "tha"))
(define (word number)
  (let loop ((n (+ number 256)) (parts '()))
    (if (zero? n)
        (string-concatenate parts)
        (loop (quotient n 16) (cons (vector-ref syllables (modulo n 16)) parts)))))
(define vocabulary (list->vector (map word (iota vocabulary-size))))

(define (article number)
  (string-join
   (let loop ((i 0) (state (next-random (* 7919 (+ number 1)))) (words '()))
     (if (= i words-each)
         words
         (let* ((state (next-random state))
                (high (modulo (quotient state 64) vocabulary-size))
                (state (next-random state))
                (index (if (zero? (modulo (quotient state 64) 3)) high (modulo high 500))))
           (loop (+ i 1) state (cons (vector-ref vocabulary index) words)))))
   " "))

;; Part 1: every thread indexes its share: word -> list of article numbers, newest first.
(define-record-type <posting>
  (make-posting article place)
  posting?
  (article posting-article) (place posting-place))

(define (index-share! from to)
  (let ((table (make-hash-table 4096)))
    (let loop ((number from))
      (when (< number to)
        (let each ((words (string-split (article number) #\space)) (place 0))
          (unless (null? words)
            (hash-set! table (car words)
                       (cons (make-posting number place) (hash-ref table (car words) '())))
            (each (cdr words) (+ place 1))))
        (loop (+ number 1))))
    table))

(define share (quotient articles threads))
(define (in-threads procedure)
  (map join-thread
       (map (lambda (i) (call-with-new-thread (lambda () (procedure i)))) (iota threads))))

(define tables (in-threads (lambda (i) (index-share! (* i share) (* (+ i 1) share)))))

(define merged (make-hash-table vocabulary-size))
(for-each
 (lambda (table)
   (hash-for-each
    (lambda (word postings)
      (hash-set! merged word (append postings (hash-ref merged word '()))))
    table))
 tables)
(define postings-count (hash-fold (lambda (word postings sum) (+ sum (length postings))) 0 merged))
(check 'postings (* articles words-each) postings-count)
(format #t "indexed ~a articles: ~a words, ~a of them different~%"
        articles postings-count (hash-count (const #t) merged))

;; Part 2: a balanced tree of the words in order, built functionally.
(define-record-type <node>
  (make-node word postings left right)
  node?
  (word node-word) (postings node-postings) (left node-left) (right node-right))

(define sorted
  (list->vector
   (sort (hash-map->list cons merged) (lambda (a b) (string<? (car a) (car b))))))
(define (build from to)
  (if (= from to)
      #f
      (let* ((middle (quotient (+ from to) 2)) (entry (vector-ref sorted middle)))
        (make-node (car entry) (cdr entry) (build from middle) (build (+ middle 1) to)))))
(define tree (build 0 (vector-length sorted)))

(define (words-with-prefix node prefix found)
  (if (not node)
      found
      (let* ((word (node-word node)) (fits (string-prefix? prefix word))
             (found (if (or fits (string<? word prefix))
                        (words-with-prefix (node-right node) prefix found)
                        found))
             (found (if fits (cons node found) found)))
        (if (or fits (string<? prefix word))
            (words-with-prefix (node-left node) prefix found)
            found))))

;; Part 3: each thread asks for prefixes and reads the articles that were found again.
(define (ask! thread questions)
  (let loop ((i 0) (state (+ 77 thread)) (sum 0))
    (if (= i questions)
        sum
        (let* ((state (next-random state))
               (whole (vector-ref vocabulary (modulo (quotient state 64) vocabulary-size)))
               (prefix (substring whole 0 (min 5 (string-length whole))))
               (found (words-with-prefix tree prefix '()))
               (numbers (delete-duplicates
                         (take-at-most 40 (append-map
                                           (lambda (node) (map posting-article (node-postings node)))
                                           found)))))
          (unless (every (lambda (node) (string-prefix? prefix (node-word node))) found)
            (fail 'prefix prefix))
          (let ((number (list-ref numbers (modulo state (length numbers)))))
            (unless (any (lambda (word) (string-prefix? prefix word))
                         (string-split (article number) #\space))
              (fail 'article number prefix)))
          (loop (+ i 1) state (+ sum (length found) (length numbers)))))))

(define (take-at-most n items)
  (if (or (zero? n) (null? items)) '() (cons (car items) (take-at-most (- n 1) (cdr items)))))

(define answers (in-threads (lambda (i) (ask! i 1000))))
(format #t "answered ~a questions: ~a~%" (* threads 1000) answers)

;; Part 4: the index against the articles, all of it.
(define places
  (hash-fold
   (lambda (word postings sum)
     (fold (lambda (posting sum) (+ sum (posting-place posting))) sum postings))
   0 merged))
(check 'places (* articles (/ (* words-each (- words-each 1)) 2)) places)
(define most-frequent
  (take (sort (hash-map->list (lambda (word postings) (cons (length postings) word)) merged)
              (lambda (a b) (or (> (car a) (car b))
                                (and (= (car a) (car b)) (string<? (cdr a) (cdr b))))))
        5))
(format #t "most frequent: ~a~%" most-frequent)
(for-each
 (lambda (number)
   (let each ((words (string-split (article number) #\space)) (place 0))
     (unless (null? words)
       (unless (any (lambda (posting) (and (= number (posting-article posting))
                                           (= place (posting-place posting))))
                    (hash-ref merged (car words)))
         (fail 'not-indexed number (car words)))
       (each (cdr words) (+ place 1)))))
 (iota 100 0 (quotient articles 100)))
(format #t "the index agrees with the articles~%")
