/* read.c: makes values of text. What it has read so far is held by its own stack frames alone,
 * which the collector scans. From any thread. */
#include "value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void skip_blanks(const char **text)
{
    while (isspace((unsigned char)**text) || **text == ';') {
        if (**text == ';')
            *text += strcspn(*text, "\n");
        else
            ++*text;
    }
}

static value read_list(const char **text)
{
    value one;
    skip_blanks(text);
    if (**text == ')') {
        ++*text;
        return NOTHING;
    }
    if (!read_value(text, &one))
        fail("a list has no end");
    return cons(one, read_list(text));
}

int read_value(const char **text, value *into)
{
    skip_blanks(text);
    if (!**text)
        return 0;
    if (**text == '(') {
        ++*text;
        *into = read_list(text);
        return 1;
    }
    if (**text == ')')
        fail("a list ends that has not begun");
    char name[64];
    size_t length = strcspn(*text, " \t\n();");
    if (length >= sizeof name)
        fail("a name is too long");
    memcpy(name, *text, length);
    name[length] = 0;
    *text += length;
    char *end;
    long n = strtol(name, &end, 10);
    *into = *end ? symbol(name) : number(n);
    return 1;
}
