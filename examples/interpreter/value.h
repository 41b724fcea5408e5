/* value.h: what a value of the small Lisp is. A value is one word: nothing (0), a number with its
 * lowest bit set, or the address of an object. Used by every file here, from any thread. */
#ifndef VALUE_H
#define VALUE_H

#include <stdint.h>

typedef uintptr_t value;

enum type { PAIR, SYMBOL, CLOSURE, PRIMITIVE, FIBER, THREAD };

struct object { uintptr_t type; };
struct pair { uintptr_t type; value first, rest; };
struct symbol { uintptr_t type; value next, global; char name[]; };
struct closure { uintptr_t type; value parameters, body, environment; };
struct primitive { uintptr_t type; value (*function)(value arguments); };

#define NOTHING ((value)0)

static inline int is_number(value v) { return v & 1; }
static inline intptr_t number_of(value v) { return (intptr_t)v >> 1; }
static inline value number(intptr_t n) { return (value)n << 1 | 1; }
static inline int is(value v, enum type type)
{
    return v && !is_number(v) && ((struct object *)v)->type == type;
}

/* Ends the process with a message if it is none. */
struct pair *pair_of(value v);
static inline value first(value v) { return pair_of(v)->first; }
static inline value rest(value v) { return pair_of(v)->rest; }

/* Before any other: whether objects get layouts, or are scanned word by word. */
void values_begin(int precise);
value cons(value first, value rest);
value symbol(const char *name);
value closure(value parameters, value body, value environment);
void primitive(const char *name, value (*function)(value arguments));
void print(value v);
_Noreturn void fail(const char *what);

/* read.c: the next expression of the text, which is moved behind it; 0 at its end. */
int read_value(const char **text, value *into);
/* eval.c */
value eval(value expression, value environment);
value apply(value function, value arguments);
void primitives_begin(void);
/* fibers.c and threads.c: further primitives. */
void fibers_begin(void);
void threads_begin(void);

#endif
