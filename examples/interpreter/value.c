/* value.c: makes objects, and says where pointers lie in them. Invariant: an object's type never
 * changes. From any thread; symbols are made under a lock. */
#include "value.h"

#include <neap.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Static data is scanned: symbols stay, and so does what globals hold. */
static value symbols;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static neap_layout pair_layout, closure_layout;
static int precise;

void values_begin(int with_layouts)
{
    precise = with_layouts;
    /* One bit for each word that may be a pointer: the type, word 0, is none. */
    pair_layout = neap_layout_bitmap(3, (uint64_t[]){0x6});
    closure_layout = neap_layout_bitmap(4, (uint64_t[]){0xe});
}

void fail(const char *what)
{
    fprintf(stderr, "lisp: %s\n", what);
    exit(1);
}

static void *object(enum type type, size_t bytes, neap_layout layout)
{
    struct object *made = precise && layout != NEAP_NO_LAYOUT ? neap_alloc_typed(bytes, layout)
                                                              : neap_alloc(bytes);
    if (!made)
        fail("no memory");
    made->type = type;
    return made;
}

value cons(value first, value rest)
{
    struct pair *pair = object(PAIR, sizeof *pair, pair_layout);
    pair->first = first;
    pair->rest = rest;
    return (value)pair;
}

value closure(value parameters, value body, value environment)
{
    struct closure *closure = object(CLOSURE, sizeof *closure, closure_layout);
    closure->parameters = parameters;
    closure->body = body;
    closure->environment = environment;
    return (value)closure;
}

value symbol(const char *name)
{
    pthread_mutex_lock(&making);
    value v = symbols;
    while (v && strcmp(((struct symbol *)v)->name, name) != 0)
        v = ((struct symbol *)v)->next;
    if (!v) {
        struct symbol *made = object(SYMBOL, sizeof *made + strlen(name) + 1, NEAP_NO_LAYOUT);
        strcpy(made->name, name);
        made->next = symbols;
        symbols = v = (value)made;
    }
    pthread_mutex_unlock(&making);
    return v;
}

void primitive(const char *name, value (*function)(value arguments))
{
    struct primitive *made = object(PRIMITIVE, sizeof *made, NEAP_NO_LAYOUT);
    made->function = function;
    ((struct symbol *)symbol(name))->global = (value)made;
}

struct pair *pair_of(value v)
{
    if (!is(v, PAIR))
        fail("a pair was expected");
    return (struct pair *)v;
}

void print(value v)
{
    if (is_number(v)) {
        printf("%ld", (long)number_of(v));
    } else if (is(v, SYMBOL)) {
        fputs(((struct symbol *)v)->name, stdout);
    } else if (is(v, PAIR) || !v) {
        putchar('(');
        for (; is(v, PAIR); v = rest(v)) {
            print(first(v));
            if (rest(v))
                fputs(is(rest(v), PAIR) ? " " : " . ", stdout);
        }
        if (v)
            print(v);
        putchar(')');
    } else {
        fputs("#<object>", stdout);
    }
}
