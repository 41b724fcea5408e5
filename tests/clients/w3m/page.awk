# Writes the page that the w3m client renders. The same page every time.
function word(n,    text) {
    text = ""
    do {
        text = text substr("abcdefghijklmnopqrstuvwxyz", n % 26 + 1, 1)
        n = int(n / 26)
    } while (n > 0)
    return text
}

BEGIN {
    rows = 7000
    print "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>Rows &amp; lists</title></head><body>"
    print "<h1>A long table</h1><table border=1>"
    print "<tr><th>number<th>word<th colspan=2>text<th>nested</tr>"
    for (row = 1; row <= rows; row++) {
        printf "<tr><td align=right>row:%d<td><a href=\"#r%d\">word:%s</a>", row, row, word(row * 7919)
        printf "<td>%d&times;%d=<b>%d</b><td><i>caf&eacute; %s</i> &lt;%d&gt;", row, row % 97, row * (row % 97), word(row), row
        if (row % 10 == 0)
            printf "<td><table border=1><tr><td>a%d<td>b%d</tr><tr><td colspan=2>c%d</tr></table>", row, row, row
        else
            printf "<td><ul><li>one %d<li>two</ul>", row
        print "</tr>"
    }
    print "</table><h2>Paragraphs</h2>"
    for (paragraph = 1; paragraph <= 6000; paragraph++) {
        printf "<p>paragraph:%d ", paragraph
        for (i = 1; i <= 120; i++)
            printf "%s<span> </span>", word(paragraph * i)
        print "</p>"
    }
    print "<h2>Forms</h2>"
    for (form = 1; form <= 300; form++) {
        printf "<form action=\"f%d\"><input type=text name=t value=\"value %d\"><select name=s>", form, form
        for (i = 1; i <= 8; i++)
            printf "<option%s>choice %d</option>", i == form % 8 + 1 ? " selected" : "", i
        print "</select><input type=checkbox checked><textarea rows=2 cols=20>text " form "</textarea><input type=submit></form>"
    }
    print "<pre>"
    for (line = 1; line <= 3000; line++)
        printf "pre:%d\t%s\n", line, word(line * 31)
    print "</pre><p>the end</p></body></html>"
}
