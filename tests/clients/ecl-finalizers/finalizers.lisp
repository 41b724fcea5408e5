;;;; ECL: finalizers. Each runs at most once, only for the dead, with the object whole, and for
;;;; nearly all of the dead (one in ten may be held by a conservative stack). Finalizers may
;;;; allocate, and may save their object. Objects are structures: ECL hands conses to the collector
;;;; with its tag in the low bits, and their contents are then not kept. Exits 1 when wrong.

(defpackage :finalizers (:use :cl))
(in-package :finalizers)

(defun fail (what &rest details)
  (format *error-output* "wrong: ~A ~S~%" what details)
  (ext:quit 1))

(defun scrub (depth)
  (if (zerop depth) 0 (+ 1 (scrub (1- depth)))))

(defun collect-until (enough)
  (dotimes (tries 60 nil)
    (scrub 1000)
    (si:gc t)
    (when (funcall enough) (return t))
    (sleep 0.01)))

(defparameter *total* 2000)
(defvar *runs* (make-array *total* :initial-element 0))
(defvar *ran* 0)
(defvar *saved* '())

(defstruct item id text numbers)

;;; Runs inside whatever call happened to allocate, so it does not print or use other things that
;;; are not reentrant; it does allocate.
(defun note (item)
  (let ((id (item-id item)) (numbers (copy-seq (item-numbers item))))
    (unless (and (stringp (item-text item)) (eql (length numbers) 20) (eql (aref numbers 19) id))
      (fail 'contents id))
    (incf (aref *runs* id))
    (incf *ran*)
    (when (zerop (mod id 50)) (push item *saved*))))

(defun make-objects ()
  (let ((kept '()))
    (dotimes (i *total* kept)
      (let ((item (make-item :id i :text (princ-to-string i)
                             :numbers (make-array 20 :initial-element i))))
        (ext:set-finalizer item #'note)
        (when (zerop (mod i 4)) (push item kept))))))

(defvar *kept* (make-objects))
(defvar *droppable* (- *total* (length *kept*)))
(unless (collect-until (lambda () (>= *ran* (- *droppable* (floor *total* 10)))))
  (fail 'finalizers-ran *ran* *droppable*))
(dotimes (i *total*)
  (when (> (aref *runs* i) 1) (fail 'ran-twice i))
  (when (and (zerop (mod i 4)) (plusp (aref *runs* i))) (fail 'ran-for-a-living-one i)))
(format t "objects: finalized once each, the living ones not~%")

;;; What finalizers saved is whole.
(si:gc t)
(dolist (item *saved*)
  (unless (and (equal (item-text item) (princ-to-string (item-id item)))
               (every (lambda (x) (eql x (item-id item))) (item-numbers item)))
    (fail 'saved (item-id item))))
(format t "saved objects are whole~%")

;;; A finalizer that was taken away again does not run.
(defvar *unwanted* 0)
(defun make-and-cancel ()
  (dotimes (i 500)
    (let ((object (make-item :id i)))
      (ext:set-finalizer object (lambda (o) (declare (ignore o)) (incf *unwanted*)))
      (ext:set-finalizer object nil))))
(make-and-cancel)
(dotimes (i 5) (scrub 1000) (si:gc t))
(unless (zerop *unwanted*) (fail 'cancelled-finalizer-ran *unwanted*))
(format t "cancelled finalizers did not run~%")

;;; The living may go as well; the list is emptied in place, so that a pointer to it that is left on
;;; the stack holds nothing more.
(fill *kept* nil)
(setf *kept* nil)
(unless (collect-until (lambda () (>= *ran* (- *total* (floor *total* 10)))))
  (fail 'rest-ran *ran*))
(format t "the rest, too~%")

;;; Dropped file streams give their descriptors back: far more than may be open at once.
(defun descriptors () (length (directory "/proc/self/fd/*" :resolve-symlinks nil)))
(defun open-and-drop (n)
  (let ((sum 0))
    (dotimes (i n sum)
      (let ((stream (open "/proc/self/stat")))
        (when (read-char stream) (incf sum))))))
(let ((characters 0))
  (dotimes (round 40)
    (incf characters (open-and-drop 100))
    (scrub 1000)
    (si:gc t))
  (format t "streams: ~D characters from as many dropped files~%" characters))
