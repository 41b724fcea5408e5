/* main.c: lisp [--conservative] FILE: evaluates the file's expressions, one after the other. */
#include "value.h"

#include <neap.h>
#include <stdio.h>
#include <string.h>

static char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail("the file cannot be opened");
    size_t room = 1 << 16;
    char *text = neap_alloc_leaf(room + 1); /* no pointers: never scanned */
    size_t length = fread(text, 1, room, file);
    if (length == room)
        fail("the file is too long");
    text[length] = 0;
    fclose(file);
    return text;
}

int main(int count, char **arguments)
{
    int conservative = count == 3 && strcmp(arguments[1], "--conservative") == 0;
    if (count != 2 + conservative)
        fail("usage: lisp [--conservative] FILE");
    values_begin(!conservative);
    primitives_begin();
    fibers_begin();
    threads_begin();
    const char *text = contents(arguments[count - 1]);
    value expression;
    while (read_value(&text, &expression))
        eval(expression, NOTHING);
    return 0;
}
