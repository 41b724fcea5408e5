;;; What mda asks for each message: counts its words, and has it thrown away.
(use-modules (ice-9 rdelim))

(define (mailutils-check-message message)
  (let ((port (mu-message-get-port message "r"))
        (table (make-hash-table)))
    (let loop ((line (read-line port)) (words 0))
      (cond
       ((eof-object? line)
        (let ((most (hash-fold (lambda (word count most) (max count most)) 0 table)))
          (format #t "~a words, ~a of them different, one of them ~a times~%"
                  words (hash-count (const #t) table) most)))
       (else
        (let ((found (string-split line #\space)))
          (for-each (lambda (word) (hash-set! table word (+ 1 (hash-ref table word 0)))) found)
          (loop (read-line port) (+ words (length found)))))))
    (mu-message-delete message)))
