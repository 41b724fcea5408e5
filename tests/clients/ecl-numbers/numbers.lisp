;;;; ECL: numbers. GMP's digits live in memory of the collector, through the allocation functions
;;;; that ECL gives it. Every result is checked by an identity or by another way to the same value;
;;;; exits 1 when one differs.

(defpackage :numbers (:use :cl))
(in-package :numbers)

(defun fail (what &rest details)
  (format *error-output* "wrong: ~A ~S~%" what details)
  (ext:quit 1))

(defun check (what expected got)
  (unless (equal expected got) (fail what)))

(defun digit-sum (n)
  (reduce #'+ (map 'list #'digit-char-p (princ-to-string n))))

(defun product (from to)
  (if (= from to)
      from
      (let ((middle (floor (+ from to) 2)))
        (* (product from middle) (product (1+ middle) to)))))

(let ((up (loop with f = 1 for i from 1 to 2500 do (setf f (* f i)) finally (return f)))
      (tree (product 1 2500)))
  (check 'factorial up tree)
  (check 'division (product 1001 2500) (floor up (product 1 1000)))
  (format t "2500!: digit sum ~D~%" (digit-sum up)))

(defun fibonacci (n)
  (if (zerop n)
      (values 0 1)
      (multiple-value-bind (a b) (fibonacci (floor n 2))
        (let ((c (* a (- (* 2 b) a))) (d (+ (* a a) (* b b))))
          (if (evenp n) (values c d) (values d (+ c d)))))))
(multiple-value-bind (a b) (fibonacci 40000)
  (check 'cassini 1 (- (* b b) (* a b) (* a a)))
  (format t "F(40000): digit sum ~D~%" (digit-sum a)))

(defun arctan-inverse (x unit)
  (loop with power = (floor unit x) with sum = 0
        for n from 1 by 2 for sign = 1 then (- sign)
        until (zerop power)
        do (incf sum (* sign (floor power n)))
           (setf power (floor power (* x x)))
        finally (return sum)))
(let* ((unit (expt 10 1010))
       (machin (* 4 (- (* 4 (arctan-inverse 5 unit)) (arctan-inverse 239 unit))))
       (stormer (* 4 (+ (* 6 (arctan-inverse 8 unit)) (* 2 (arctan-inverse 57 unit))
                        (arctan-inverse 239 unit)))))
  (check 'pi (floor machin (expt 10 20)) (floor stormer (expt 10 20)))
  (format t "pi: digit sum ~D~%" (digit-sum (floor machin (expt 10 20)))))

(let ((up (loop for i from 1 to 1200 sum (/ 1 i)))
      (down (loop for i from 1200 downto 1 sum (/ 1 i))))
  (check 'harmonic up down)
  (format t "H(1200): digit sum ~D~%" (digit-sum (numerator up))))

(defun power-modulo (base exponent modulus)
  (loop with result = 1
        while (plusp exponent)
        do (when (oddp exponent) (setf result (mod (* result base) modulus)))
           (setf base (mod (* base base) modulus) exponent (ash exponent -1))
        finally (return result)))
(let ((prime (1- (expt 2 521))))
  (loop for i from 2 to 40 do (check 'fermat 1 (power-modulo i (1- prime) prime)))
  (format t "modular powers: 39~%"))

;;; Forty thousand medium integers alive at once.
(let ((table (make-hash-table)))
  (dotimes (i 40000) (setf (gethash i table) (ash (1+ i) (+ 64 (mod i 300)))))
  (si:gc t)
  (dotimes (i 40000)
    (check 'shift (1+ i) (ash (gethash i table) (- (+ 64 (mod i 300))))))
  (format t "shifts: ~D~%"
          (digit-sum (let ((sum 0)) (maphash (lambda (k v) (declare (ignore k)) (setf sum (logxor sum v))) table) sum))))

(let ((text (with-output-to-string (out)
              (dotimes (i 3000) (format out "~R ~@R ~36R~%" i (1+ (mod i 3000)) (expt i 12))))))
  (format t "printed: ~D characters~%" (length text)))
