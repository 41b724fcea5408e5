;;; Guile: ports. Buffers are pointer-free objects that the kernel reads into and writes from
;;; while other objects come and go: string and bytevector ports, custom ports in Scheme, files
;;; read and written in large pieces, and pipes to other processes. Exits 1 when wrong.

(use-modules (rnrs bytevectors) (ice-9 binary-ports) (ice-9 rdelim) (ice-9 popen)
             (ice-9 textual-ports) (srfi srfi-1))

(define (fail what . details)
  (format (current-error-port) "wrong: ~a ~s~%" what details)
  (force-output (current-error-port))
  (primitive-exit 1))

(define (check what expected got)
  (unless (equal? expected got) (fail what)))

(define (line i) (string-append "line " (number->string i) " λ " (number->string (* i i) 16)))

;; String ports: a long text line by line, out and in again.
(define lines 60000)
(define text
  (call-with-output-string
    (lambda (port)
      (let loop ((i 0))
        (when (< i lines)
          (put-string port (line i))
          (newline port)
          (loop (+ i 1)))))))
(call-with-input-string text
  (lambda (port)
    (let loop ((i 0))
      (let ((got (read-line port)))
        (if (eof-object? got)
            (check 'string-port lines i)
            (begin (check 'string-line (line i) got) (loop (+ i 1))))))))
(format #t "string ports: ~a characters~%" (string-length text))

;; The reader and the writer over nested data.
(define data
  (map (lambda (i) `(item ,i #(1 ,i "text\n") (,(/ i 7) . ,(exact->inexact i)) #:key #\a)) (iota 5000)))
(define written (call-with-output-string (lambda (port) (write data port))))
(check 'reader data (call-with-input-string written read))
(format #t "reader: ~a characters~%" (string-length written))

;; Bytevector ports, and one that grows to 8 MB.
(call-with-values open-bytevector-output-port
  (lambda (port get)
    (let loop ((i 0))
      (when (< i 2000)
        (put-bytevector port (make-bytevector 4096 (modulo i 256)))
        (loop (+ i 1))))
    (let ((bytes (get)))
      (check 'length (* 2000 4096) (bytevector-length bytes))
      (let loop ((i 0))
        (when (< i 2000)
          (check 'byte (modulo i 256) (bytevector-u8-ref bytes (+ 17 (* i 4096))))
          (loop (+ i 1))))
      (format #t "bytevector ports: ~a bytes~%" (bytevector-length bytes)))))

;; A custom port whose bytes come from a closure that allocates and collects.
(define (make-counter-port limit)
  (let ((position 0))
    (make-custom-binary-input-port
     "counter"
     (lambda (bytes start count)
       (when (zero? (modulo position 65536)) (gc))
       (let ((n (min count 997 (- limit position))))
         (let loop ((i 0))
           (when (< i n)
             (bytevector-u8-set! bytes (+ start i) (modulo (+ position i) 251))
             (loop (+ i 1))))
         (set! position (+ position n))
         n))
     #f #f #f)))
(let ((bytes (get-bytevector-all (make-counter-port 500000))))
  (check 'custom-length 500000 (bytevector-length bytes))
  (let loop ((i 0))
    (when (< i 500000)
      (check 'custom-byte (modulo i 251) (bytevector-u8-ref bytes i))
      (loop (+ i 1))))
  (format #t "custom port: ~a bytes~%" (bytevector-length bytes)))

;; A file, written and read in pieces into fresh bytevectors: read(2) into collected memory.
(define path (string-append (getenv "HOME") "/ports." (number->string (getpid))))
(define pieces 200)
(define (piece i) (make-bytevector 65536 (modulo (* 3 i) 256)))
(call-with-output-file path
  (lambda (port)
    (let loop ((i 0))
      (when (< i pieces) (put-bytevector port (piece i)) (loop (+ i 1)))))
  #:binary #t)
(call-with-input-file path
  (lambda (port)
    (setvbuf port 'none)
    (let loop ((i 0) (kept '()))
      (let ((got (get-bytevector-n port 65536)))
        (if (eof-object? got)
            (begin
              (check 'pieces pieces i)
              (for-each (lambda (n bytes) (check 'kept-piece (piece n) bytes))
                        (reverse (iota pieces)) kept))
            (loop (+ i 1) (cons got kept))))))
  #:binary #t)
(delete-file path)
(format #t "file: ~a pieces~%" pieces)

;; Pipes: another program's output, while this one allocates.
(define (pipe-sum)
  (let ((port (open-input-pipe "seq 1 20000")))
    (let loop ((sum 0))
      (let ((got (read-line port)))
        (if (eof-object? got)
            (begin (check 'status 0 (status:exit-val (close-pipe port))) sum)
            (loop (+ sum (string->number got))))))))
(format #t "pipes: ~a~%" (map (lambda (i) (gc) (pipe-sum)) (iota 5)))
