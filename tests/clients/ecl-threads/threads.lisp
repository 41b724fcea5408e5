;;;; ECL: threads. Workers keep tables of their own while others collect; short-lived threads come
;;;; and go; a mailbox carries fresh lists; special variables are bound per thread; an interrupted
;;;; thread unwinds. Exits 1 when wrong.

(defpackage :workers (:use :cl))
(in-package :workers)

(defun fail (what &rest details)
  (format *error-output* "wrong: ~A ~S~%" what details)
  (ext:quit 1))

(defun check (what expected got)
  (unless (equalp expected got) (fail what expected got)))

(defun churn (n)
  (let ((last nil))
    (dotimes (i n last) (setf last (list i (make-string 10) (if (zerop (mod i 50)) nil last))))))

(defun fresh (id n)
  (loop for i below n collect (cons (* id i) (princ-to-string (* id i)))))

(defun start (name function &rest arguments)
  (apply #'mp:process-run-function name function arguments))

;;; Four workers, each with a table of its own.
(defun table-work (id)
  (let ((table (make-hash-table :test #'equal)))
    (dotimes (round 12)
      (dotimes (i 2000)
        (setf (gethash (princ-to-string (+ i (* 500 round))) table) (list id round i)))
      (dotimes (i 300)
        (remhash (princ-to-string (+ i (* 500 round))) table)))
    (let ((sum 0))
      (maphash (lambda (key value)
                 (unless (= (parse-integer key) (+ (third value) (* 500 (second value))))
                   (fail 'table-entry key value))
                 (unless (= id (first value)) (fail 'other-thread value))
                 (incf sum (third value)))
               table)
      (list id (hash-table-count table) sum))))
(let* ((threads (loop for id below 4 collect (start 'table #'table-work id)))
       (results (progn (dotimes (i 5) (churn 20000) (si:gc t))
                       (mapcar #'mp:process-join threads))))
  (loop for id below 4 for result in results
        do (check 'table (table-work id) result))
  (format t "tables: ~S~%" results))

;;; Short-lived threads.
(let ((sum 0))
  (dotimes (round 30)
    (let ((threads (loop for i below 6
                         collect (start 'short (lambda (id) (churn 1000) (fresh id 40))
                                        (+ i (* 6 round))))))
      (loop for thread in threads for i from 0
            do (let ((result (mp:process-join thread)))
                 (check 'short (fresh (+ i (* 6 round)) 40) result)
                 (incf sum (length result))))))
  (format t "short-lived: ~D~%" sum))

;;; A lock and a condition variable hand fresh lists from one thread to the other.
(defvar *lock* (mp:make-lock :name 'ball))
(defvar *changed* (mp:make-condition-variable))
(defvar *ball* nil)
(defvar *turn* 'ping)
(defun play (me other rounds)
  (let ((sum 0))
    (dotimes (round rounds sum)
      (mp:with-lock (*lock*)
        (loop until (eq *turn* me) do (mp:condition-variable-wait *changed* *lock*))
        (incf sum (length *ball*))
        (setf *ball* (fresh round (mod round 30)) *turn* other)
        (mp:condition-variable-broadcast *changed*)))))
(let* ((pong (start 'pong #'play 'pong 'ping 1500))
       (ping-sum (play 'ping 'pong 1500))
       (pong-sum (mp:process-join pong)))
  (check 'pong (loop for r below 1500 sum (mod r 30)) pong-sum)
  (format t "ping-pong: ~D ~D~%" ping-sum pong-sum))

;;; A mailbox from each of two producers to this thread. (ECL's own race: with two producers for one
;;; mailbox its reader now and then gets what lay in a place before.)
(let* ((mailboxes (loop repeat 2 collect (mp:make-mailbox :name 'numbers :count 64)))
       (producers (loop for id from 1 for mailbox in mailboxes
                        collect (start 'producer
                                       (lambda (id mailbox)
                                         (dotimes (i 2000)
                                           (mp:mailbox-send mailbox (list id i (princ-to-string i)))))
                                       id mailbox)))
       (sum 0))
  (dotimes (i 2000)
    (dolist (mailbox mailboxes)
      (let ((message (mp:mailbox-read mailbox)))
        (unless (string= (princ-to-string (second message)) (third message))
          (fail 'message message))
        (incf sum (* (first message) (second message)))))
    (when (zerop (mod i 500)) (si:gc t)))
  (mapc #'mp:process-join producers)
  (check 'mailbox (* 3 (/ (* 1999 2000) 2)) sum)
  (format t "mailbox: ~D~%" sum))

;;; Special variables: the binding is the thread's, the global value is not touched.
(defvar *special* 'global)
(let ((threads (loop for id below 12
                     collect (start 'special
                                    (lambda (id)
                                      (let ((*special* (fresh id 100)))
                                        (churn 20000)
                                        (check 'special (fresh id 100) *special*)
                                        id))
                                    id))))
  (si:gc t)
  (check 'special-ids (loop for i below 12 collect i) (mapcar #'mp:process-join threads))
  (check 'global 'global *special*)
  (format t "specials: each its own~%"))

;;; A thread that is killed runs its unwind-protect forms.
(let* ((started nil) (cleaned nil)
       (thread (start 'endless
                      (lambda ()
                        (unwind-protect (progn (setf started t) (loop (sleep 0.001)))
                          (setf cleaned (fresh 7 5)))))))
  (loop until started do (sleep 0.001))
  (si:gc t)
  (mp:process-kill thread)
  (mp:process-join thread)
  (check 'cleaned (fresh 7 5) cleaned)
  (format t "killed: unwound~%"))
