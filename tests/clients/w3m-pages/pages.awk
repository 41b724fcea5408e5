# Writes small pages into the directory given as `directory`, each heavy in one kind of thing.
function open_page(name, charset) {
    file = directory "/" name
    print "<html><head><meta charset=\"" charset "\"><title>" name "</title></head><body>" > file
}
function put(text) { print text > file }
function close_page() { print "</body></html>" > file; close(file) }

BEGIN {
    open_page("tables.html", "utf-8")
    for (a = 1; a <= 4; a++) {
        put("<table border=" a % 2 " width=" 50 + 10 * a "%><caption>table " a "</caption>")
        for (b = 1; b <= 6; b++) {
            put("<tr><td rowspan=" b % 3 + 1 ">" a "." b "<td><table border>")
            for (c = 1; c <= 10; c++)
                put("<tr><td>cell " a "." b "." c "<td align=center>x<td nowrap>" c * b "</tr>")
            put("</table></tr>")
        }
        put("</table>")
    }
    close_page()

    open_page("entities.html", "utf-8")
    for (i = 160; i <= 1200; i++) put("&#" i ";" (i % 20 == 0 ? "<br>" : ""))
    put("&Auml;&Ouml;&Uuml; &szlig;&eacute; &euro; &euml; &lt;&amp;&gt;")
    close_page()

    open_page("latin.html", "iso-8859-1")
    for (i = 1; i <= 300; i++) put("<p>Gr\374\337e " i " \344\366\374 na\357ve</p>")
    close_page()

    open_page("nested.html", "utf-8")
    for (i = 1; i <= 30; i++) put((i % 2 ? "<ul><li>" : "<ol><li><blockquote>") "deep " i)
    for (i = 30; i >= 1; i--) put((i % 2 ? "</ul>" : "</blockquote></ol>"))
    put("<dl>")
    for (i = 1; i <= 200; i++) put("<dt>term " i "<dd>meaning <em>of</em> <tt>" i "</tt>")
    put("</dl>")
    close_page()

    open_page("forms.html", "utf-8")
    for (i = 1; i <= 60; i++) {
        put("<form method=post action=x" i "><input name=a value='v" i "'><input type=password value=hidden>")
        put("<input type=radio checked><input type=checkbox><select multiple>")
        for (k = 1; k <= 5; k++) put("<option value=" k (k == i % 5 + 1 ? " selected" : "") ">option " k)
        put("</select><textarea>" i " lines\nof text</textarea><input type=submit value=go></form>")
    }
    close_page()

    open_page("broken.html", "utf-8")
    for (i = 1; i <= 400; i++)
        put("<b><i>unclosed " i "<table><td>" i "<p></b><a href=" i "><img alt='picture " i "' src=x></i><!-- " i)
    close_page()

    file = directory "/plain.txt"
    for (i = 1; i <= 2000; i++) print "plain " i "\ttab\f" > file
    close(file)
}
