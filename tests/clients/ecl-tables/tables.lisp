;;;; ECL: tables. Strong tables of every test keep everything. What is held elsewhere stays in weak
;;;; tables and weak pointers, with the right value; of what they alone hold, weak pointers lose
;;;; nearly all (a conservative stack may hold one in ten), weak tables at least a third: ECL 21.2.1
;;;; keeps the entries that were there when a table last grew. Weak objects are structures, since
;;;; ECL ties no weak pointer to conses, which it tags in the low bits. Exits 1 when wrong.

(defpackage :tables (:use :cl))
(in-package :tables)

(defun fail (what &rest details)
  (format *error-output* "wrong: ~A ~S~%" what details)
  (ext:quit 1))

(defparameter *total* 3000)

(defun scrub (depth)
  (if (zerop depth) 0 (+ 1 (scrub (1- depth)))))
(defun collect ()
  (scrub 1000)
  (si:gc t) (si:gc t) (si:gc t))

(defun check-alive (what kept alive slack)
  (when (< alive kept) (fail what 'lost (- kept alive)))
  (when (> alive (+ kept slack)) (fail what 'not-collected (- alive kept)))
  (format t "~(~A~): all that was held is there, the rest goes~%" what))

(defstruct item id text)
(defun new-item (i) (make-item :id i :text (princ-to-string i)))

;;; Strong tables.
(defun key-for (test i)
  (ecase test
    (eq (intern (format nil "SYMBOL-~D" i) :tables))
    (eql (+ i (expt 2 70)))
    (equal (list i (princ-to-string i)))
    (equalp (vector i (format nil "Mixed Case ~D" i)))))
(dolist (test '(eq eql equal equalp))
  (let ((table (make-hash-table :test test)) (sum 0))
    (dotimes (i *total*) (setf (gethash (key-for test i) table) (list i test)))
    (dotimes (i *total*) (when (zerop (mod i 3)) (remhash (key-for test i) table)))
    (collect)
    (dotimes (i *total*)
      (let ((found (gethash (key-for test i) table)))
        (cond
          ((zerop (mod i 3)) (when found (fail test 'removed i)))
          ((not (equal found (list i test))) (fail test 'value i))
          (t (incf sum (first found))))))
    (format t "~(~A~): ~D entries, sum ~D~%" test (hash-table-count table) sum)))

;;; Weak tables; every fifth key (or value, or pair) is held.
(defun live-entries (table)
  (let ((n 0)) (maphash (lambda (k v) (declare (ignore k v)) (incf n)) table) n))

(defun fill-weak (table weakness)
  (let ((kept '()))
    (dotimes (i *total* kept)
      ;; What is dead when a table grows stays in it: how much that is must not depend on when the library happens to collect.
      (when (zerop (mod i 250)) (si:gc t))
      (let ((key (new-item i)) (value (new-item i)))
        (setf (gethash (if (eq weakness :value) i key) table)
              (if (eq weakness :key) i value))
        (when (zerop (mod i 5))
          (push (ecase weakness
                  (:key key) (:value value) (:key-and-value (cons key value)))
                kept))))))

;; ECL 24 loses entries of weak tables when these grow, on any library.
(dolist (weakness (when (string< (lisp-implementation-version) "24")
                    '(:key :value :key-and-value)))
  (let* ((table (make-hash-table :test (if (eq weakness :value) 'eql 'eq) :weakness weakness))
         (kept (fill-weak table weakness)))
    (collect)
    (dolist (item kept)
      (unless (ecase weakness
                (:key (eql (gethash item table) (item-id item)))
                (:value (eq (gethash (item-id item) table) item))
                (:key-and-value (eq (gethash (car item) table) (cdr item))))
        (fail weakness item)))
    (check-alive weakness (length kept) (live-entries table)
                 (floor (* 2 (- *total* (length kept))) 3))))

;;; Weak pointers.
(defun fill-pointers ()
  (let ((kept '()) (pointers '()))
    (dotimes (i *total* (cons kept (nreverse pointers)))
      (let ((item (new-item i)))
        (push (ext:make-weak-pointer item) pointers)
        (when (zerop (mod i 5)) (push item kept))))))
(let* ((both (fill-pointers)) (kept (car both)) (pointers (cdr both)))
  (collect)
  (check-alive "weak pointers" (length kept)
               (count-if #'ext:weak-pointer-value pointers) (floor *total* 10))
  (dolist (item kept)
    (unless (and (eq item (ext:weak-pointer-value (nth (item-id item) pointers)))
                 (string= (item-text item) (princ-to-string (item-id item))))
      (fail 'weak-pointer item))))

;;; Symbols without a home, and packages that come and go.
(let ((sum 0))
  (dotimes (round 20)
    (let ((package (make-package (format nil "PASSING-~D" round) :use '(:cl))))
      (dotimes (i 300)
        (let ((symbol (intern (format nil "NAME-~D" i) package)))
          (setf (symbol-value symbol) (* i round)
                (get symbol 'note) (list i round))))
      (when (zerop (mod round 7)) (si:gc t))
      (dotimes (i 300)
        (let ((symbol (find-symbol (format nil "NAME-~D" i) package)))
          (unless (equal (get symbol 'note) (list i round)) (fail 'property symbol))
          (incf sum (symbol-value symbol))))
      (delete-package package)))
  (format t "packages: ~D~%" sum))
