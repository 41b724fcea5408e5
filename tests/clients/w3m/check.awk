# Checks what w3m made of the page that page.awk writes; fails with what is missing.
function word(n,    text) {
    text = ""
    do {
        text = text substr("abcdefghijklmnopqrstuvwxyz", n % 26 + 1, 1)
        n = int(n / 26)
    } while (n > 0)
    return text
}
function wrong(what) {
    print "wrong: " what > "/dev/stderr"
    failed = 1
    exit 1
}
function number_after(label,    rest) {
    rest = substr($0, index($0, label) + length(label))
    sub(/[^0-9].*/, "", rest)
    return rest + 0
}

/row:[0-9]/ {
    rows++
    if (number_after("row:") != rows) wrong("row " rows " is " number_after("row:"))
    if (!index($0, "word:" word(rows * 7919))) wrong("the word of row " rows)
    if (!index($0, "=" rows * (rows % 97))) wrong("the product of row " rows)
}
/^paragraph:/ { paragraphs++; if (number_after("paragraph:") != paragraphs) wrong("paragraph " paragraphs) }
/\[value [0-9]/ { forms++; if (number_after("[value ") != forms) wrong("form " forms) }
/^pre:/ { lines++; if (!index($0, word(lines * 31))) wrong("preformatted line " lines) }
/^the end/ { ended = 1 }

END {
    if (failed) exit 1
    if (rows != 7000) wrong("rows: " rows)
    if (paragraphs != 6000) wrong("paragraphs: " paragraphs)
    if (forms != 300) wrong("forms: " forms)
    if (lines != 3000) wrong("preformatted lines: " lines)
    if (!ended) wrong("the page has no end")
}
