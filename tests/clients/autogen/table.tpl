[+ AutoGen5 template out +][+
(define parts 0)
(define rows 0)
(define longest "")
(define (spread text times)
  (if (= times 0) "" (string-append text (spread text (- times 1))))) +]
[+ (get "title") +] [+ (string-upcase (get "title")) +]
[+ FOR row +][+
  (set! rows (+ rows 1))
  (let* ((name (get "name"))
         (long (spread name (+ 1 (modulo rows 7)))))
    (if (> (string-length long) (string-length longest)) (set! longest long))
    (string-append (string-capitalize name) ": " (number->string (string-length long)))) +] [+
  (format #f "~5,'0d" (string->number (get "number"))) +] [+ (string-substitute (get "text") "text" "row") +][+
  FOR part +][+ (set! parts (+ parts 1)) (string-append " " (get "key") "=" (get "value")) +][+ ENDFOR +]
[+ ENDFOR +]longest: [+ (. longest) +]
sums: [+ (let loop ((i 0) (all '()))
           (if (= i 20000) (number->string (apply + (map length all)))
               (loop (+ i 1) (if (= 0 (modulo i 100)) (cons (iota 10) all) (begin (make-vector 20 i) all))))) +]
rows: [+ (. rows) +], parts: [+ (. parts) +]
