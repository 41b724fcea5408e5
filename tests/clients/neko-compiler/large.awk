# Writes a large Neko program: many functions, nested expressions, strings and switches.
BEGIN {
    for (i = 1; i <= 700; i++) {
        printf "f%d = function(a, b) {\n\tvar text = \"name %d\" + a;\n\tvar list = $array(a, b, %d, function(x) { return x + a * %d - b; });\n", i, i, i, i % 7
        printf "\tif (a > b && $ssize(text) > 3) { list[0] = (a + b) * (%d - a) %% 1000; } else { while (b > 0) b = b - 1; }\n", i
        printf "\tvar record = { name => text, value => list[2] * 4, rest => { deep => list } };\n"
        printf "\tswitch a { 1 => record.value * 2 + %d 2 => 17 default => record.value }\n};\n", i * 4 % 3
    }
    print "sum = 0;"
    for (i = 1; i <= 700; i++)
        printf "sum = sum + f%d(1, %d) - %d;\n", i, i % 5, i * 4 % 3
    print "$print(\"sum \" + sum + \"\\n\");"
}
