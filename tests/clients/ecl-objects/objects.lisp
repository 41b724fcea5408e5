;;;; ECL: objects. Classes are defined and redefined while instances live, generic functions build
;;;; their dispatch caches again and again, conditions unwind deep stacks, closures are compiled to
;;;; bytecode at run time and dropped, streams build and parse text. Exits 1 when wrong.

(defpackage :objects (:use :cl))
(in-package :objects)

(defun fail (what &rest details)
  (format *error-output* "wrong: ~A ~S~%" what details)
  (ext:quit 1))

(defun check (what expected got)
  (unless (equalp expected got) (fail what expected got)))

(defclass shape () ((size :initarg :size :accessor size) (notes :initform nil :accessor notes)))
(defclass square (shape) ())
(defclass cube (square) ((depth :initarg :depth :initform 2 :accessor depth)))
(defgeneric measure (shape))
(defmethod measure ((shape square)) (* (size shape) (size shape)))
(defmethod measure ((shape cube)) (* (depth shape) (call-next-method)))
(defmethod measure :around ((shape shape))
  (push (list 'measured (size shape)) (notes shape))
  (call-next-method))

(let ((kept '()) (sum 0))
  (dotimes (i 12000)
    (let ((shape (if (evenp i)
                     (make-instance 'square :size i)
                     (make-instance 'cube :size i :depth 3))))
      (incf sum (measure shape))
      (when (zerop (mod i 100)) (push shape kept))))
  (check 'measure (loop for i below 12000 sum (* (if (evenp i) 1 3) i i)) sum)
  (format t "instances: ~D~%" sum)
  ;; A class gains a slot: its living instances change when next touched.
  (eval '(defclass shape () ((size :initarg :size :accessor size)
                             (notes :initform nil :accessor notes)
                             (colour :initform 'blue :accessor colour))))
  (si:gc t)
  (check 'new-slot t (every (lambda (shape) (eq 'blue (funcall 'colour shape))) kept))
  (check 'old-slot (loop for i from 11900 downto 0 by 100 collect i) (mapcar #'size kept))
  (check 'notes t (every (lambda (shape) (equal (notes shape) (list (list 'measured (size shape))))) kept))
  (format t "redefined class: ~D instances carried over~%" (length kept)))

;;; Methods that come and go on many classes.
(defgeneric answer (thing))
(let ((sum 0))
  (dotimes (i 40)
    (let ((name (intern (format nil "PASSING-CLASS-~D" i))))
      (eval `(progn (defclass ,name () ((value :initarg :value :reader ,name)))
                    (defmethod answer ((thing ,name)) (+ ,i (slot-value thing 'value)))))
      (dotimes (k 20) (incf sum (answer (make-instance name :value k))))
      (when (zerop (mod i 10)) (si:gc t))))
  (check 'answers (+ (* 20 (/ (* 39 40) 2)) (* 40 190)) sum)
  (format t "passing classes: ~D~%" sum))

;;; Conditions through deep stacks; every frame holds a list of its own.
(define-condition bottom (error) ((payload :initarg :payload :reader payload)))
(defun deep (n payload)
  (if (zerop n)
      (error 'bottom :payload payload)
      (let ((mine (list n)))
        (cons mine (deep (1- n) (cons mine payload))))))
(check 'conditions (* 50 300)
       (loop for i below 50
             sum (handler-case (deep 300 '())
                   (bottom (c)
                     (when (zerop (mod i 10)) (si:gc t))
                     (check 'payload (loop for k from 1 to 300 collect (list k)) (payload c))
                     (length (payload c))))))
(check 'restarts '(0 10 20)
       (loop for i below 3
             collect (handler-bind ((bottom (lambda (c) (declare (ignore c))
                                              (si:gc t) (invoke-restart 'use (* 10 i)))))
                       (restart-case (deep 100 '()) (use (value) value)))))
(format t "conditions: unwound~%")

;;; Functions compiled at run time by the bytecode compiler.
(ext:install-bytecodes-compiler)
(let ((functions '()) (sum 0))
  (dotimes (i 400)
    (let ((function (compile nil `(lambda (x) (let ((k ,i)) (lambda (y) (+ (* k x) y)))))))
      (when (zerop (mod i 4)) (push (cons i (funcall function 3)) functions))))
  (si:gc t)
  (dolist (entry functions)
    (check 'closure (+ (* 3 (car entry)) 5) (funcall (cdr entry) 5))
    (incf sum (funcall (cdr entry) 5)))
  (format t "compiled closures: ~D~%" sum))

;;; Text: printed, read back, compared.
(let* ((data (loop for i below 4000
                   collect (list i (/ i 7) (format nil "text ~D" i) (vector i #\a :key) (* i 1d0))))
       (text (with-standard-io-syntax (prin1-to-string data)))
       (again (with-standard-io-syntax (read-from-string text))))
  (check 'reader data again)
  (format t "text: ~D characters~%" (length text)))
