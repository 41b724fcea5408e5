;;;; ECL: the timed client. Symbolic differentiation and simplification of random expressions
;;;; (conses by the million), an interpreter for them, and a table of structures with string keys
;;;; that is filled, changed and walked while the rest goes on. Derivatives are checked against
;;;; exact difference quotients, the table against a vector. Exits 1 when wrong.

(defpackage :rewrite (:use :cl))
(in-package :rewrite)

(defun fail (what &rest details)
  (format *error-output* "wrong: ~A ~S~%" what details)
  (ext:quit 1))

;;; A small generator of its own, so that the numbers are the same everywhere.
(defvar *state* 12345)
(defun random-below (n)
  (setf *state* (mod (+ (* *state* 1103515245) 12345) 2147483648))
  (mod (floor *state* 64) n))

(defun random-expression (depth)
  (if (or (zerop depth) (zerop (random-below 9)))
      (if (zerop (random-below 2)) 'x (1+ (random-below 9)))
      (case (random-below 4)
        (0 (list '+ (random-expression (1- depth)) (random-expression (1- depth))))
        (1 (list '- (random-expression (1- depth)) (random-expression (1- depth))))
        (2 (list '* (random-expression (1- depth)) (random-expression (1- depth))))
        (t (list '^ (random-expression (1- depth)) (+ 2 (random-below 2)))))))

(defun derivative (e)
  (cond
    ((numberp e) 0)
    ((eq e 'x) 1)
    (t (destructuring-bind (op a b) e
         (ecase op
           ((+ -) (list op (derivative a) (derivative b)))
           (* (list '+ (list '* (derivative a) b) (list '* a (derivative b))))
           (^ (list '* (list '* b (list '^ a (1- b))) (derivative a))))))))

(defun simplify (e)
  (if (atom e)
      e
      (let ((op (first e)) (a (simplify (second e))) (b (simplify (third e))))
        (cond
          ((and (numberp a) (numberp b))
           (ecase op (+ (+ a b)) (- (- a b)) (* (* a b)) (^ (expt a b))))
          ((and (eq op '+) (eql a 0)) b)
          ((and (member op '(+ -)) (eql b 0)) a)
          ((and (eq op '-) (equal a b)) 0)
          ((and (eq op '*) (or (eql a 0) (eql b 0))) 0)
          ((and (eq op '*) (eql a 1)) b)
          ((and (member op '(* ^)) (eql b 1)) a)
          ((and (eq op '+) (equal a b)) (list '* 2 a))
          (t (list op a b))))))

(defun value-at (e x)
  (cond
    ((numberp e) e)
    ((eq e 'x) x)
    (t (let ((a (value-at (second e) x)) (b (value-at (third e) x)))
         (ecase (first e) (+ (+ a b)) (- (- a b)) (* (* a b)) (^ (expt a b)))))))

(defun size (e) (if (atom e) 1 (+ 1 (size (second e)) (size (third e)))))

;;; The derivative of a polynomial p at x is the constant term of (p(x+h)-p(x-h))/2h as h -> 0; for
;;; exact rationals and tiny h the difference is of the order of h squared.
(defun check-derivative (e d)
  (let* ((x 1/3) (h (expt 10 -12))
         (quotient (/ (- (value-at e (+ x h)) (value-at e (- x h))) (* 2 h)))
         (exact (value-at d x)))
    (unless (< (abs (- quotient exact)) (* (max 1 (abs exact)) 1/10000))
      (fail 'derivative e))))

(defun rewrite-round (rounds depth)
  (let ((nodes 0) (kept '()))
    (dotimes (i rounds)
      (let* ((e (random-expression depth))
             (d (derivative e))
             (s (simplify (simplify d))))
        (unless (= (value-at d 2) (value-at s 2)) (fail 'simplify i))
        (when (and (zerop (mod i 200)) (< (size e) 60)) (check-derivative e s))
        (when (zerop (mod i 16)) (push (list i (size s) s) kept))
        (incf nodes (+ (size d) (size s)))))
    (dolist (entry kept)
      (unless (= (second entry) (size (third entry))) (fail 'kept (first entry))))
    (values nodes (length kept))))

(defstruct entry name values total)

(defun table-round (keys steps)
  (let ((table (make-hash-table :test #'equal))
        (shadow (make-array keys :initial-element nil)))
    (dotimes (step steps)
      (let* ((key (random-below keys)) (name (format-key key)))
        (cond
          ((zerop (random-below 5))
           (remhash name table)
           (setf (aref shadow key) nil))
          (t
           (let ((entry (gethash name table)))
             (unless entry
               (setf entry (make-entry :name name :values '() :total 0)
                     (gethash name table) entry))
             (push (float step 1d0) (entry-values entry))
             (incf (entry-total entry) step)
             (when (> (length (entry-values entry)) 8)
               (setf (entry-values entry) (subseq (entry-values entry) 0 4)))
             (setf (aref shadow key) (+ step (or (aref shadow key) 0))))))))
    (let ((present 0) (sum 0))
      (dotimes (key keys)
        (let ((entry (gethash (format-key key) table)))
          (unless (eql (and entry (entry-total entry)) (aref shadow key)) (fail 'table key))
          (when entry
            (unless (every (lambda (v) (typep v 'double-float)) (entry-values entry))
              (fail 'values key))
            (incf present)
            (incf sum (entry-total entry)))))
      (values present sum))))

(defun format-key (key)
  (let ((digits (make-string 6 :initial-element #\0)))
    (loop for i from 5 downto 0 while (plusp key)
          do (multiple-value-bind (rest digit) (floor key 10)
               (setf (char digits i) (digit-char digit) key rest)))
    (concatenate 'string "key-" digits)))

(multiple-value-bind (nodes kept) (rewrite-round 24000 8)
  (format t "expressions: ~D nodes, ~D kept~%" nodes kept))
(multiple-value-bind (present sum) (table-round 60000 1000000)
  (format t "table: ~D present, sum ~D~%" present sum))
