-- Computations whose results are printed; each line says what it is.
R = ZZ/32003[x_1..x_6];
I = ideal(x_1^3+x_2^3+x_3^3-x_4, x_1*x_2*x_3-x_5^2, x_2^2*x_4-x_6^3, x_1*x_6-x_2*x_5);
print("groebner: " | toString numgens ideal gens gb I);
print("dimension, degree: " | toString (dim I, degree I));
C = res coker gens gb ideal(x_1^2, x_1*x_2, x_2^3-x_3*x_4^2, x_3^2*x_5, x_4*x_6^2);
print("betti: " | toString apply(length C + 1, i -> rank C_i));
S = QQ[a..h];
M = matrix{{a,b,c,d},{b,c,d,e},{c,d,e,f},{d,e,f,g}};
print("minors: " | toString numgens minors(3, M));
print("determinant: " | toString (# terms det M));
J = ideal(a*b-c*d, a^2-e*f, b*g-h^2);
print("saturated: " | toString (degree saturate(J, a)));
print("primes: " | toString (# minimalPrimes monomialIdeal(a*b, b*c, c*d, d*e, e*f, f*g, g*h)));
print("factored: " | toString (# factor ((a^4-b^4)*(c^6-d^6)*(e^3+f^3))));
words = new MutableHashTable;
for i from 0 to 300000 do (
    w := "word" | toString (i * 7 % 997);
    words#w = (if words#?w then words#w else 0) + 1);
print("table: " | toString (# words, sum values words));
fib = memoize(n -> if n < 2 then n else fib(n-1) + fib(n-2));
print("fibonacci: " | toString fib 130);
tree = d -> if d == 0 then () else (tree(d-1), tree(d-1));
count = t -> if # t == 0 then 1 else count t#0 + count t#1;
print("tree: " | toString count tree 16);
print("lists: " | toString sum apply(200, i -> # unique apply(500, j -> (i * j) % 101)));
print("big: " | toString (2^5000 % 1000000007));
