/* eval.c: the evaluator and its primitives. An environment is a list of pairs (name . value); what
 * is in none of them is in the symbol. From any thread; the environment is the caller's. */
#include "value.h"

#include <neap.h>
#include <stdio.h>

static value special_if, special_quote, special_define, special_lambda, special_begin;

static value look_up(value name, value environment)
{
    for (; environment; environment = rest(environment))
        if (first(first(environment)) == name)
            return rest(first(environment));
    return ((struct symbol *)name)->global;
}

static value eval_each(value expressions, value environment)
{
    if (!expressions)
        return NOTHING;
    value one = eval(first(expressions), environment);
    return cons(one, eval_each(rest(expressions), environment));
}

static value bind(value parameters, value arguments, value environment)
{
    for (; parameters; parameters = rest(parameters), arguments = rest(arguments))
        environment = cons(cons(first(parameters), first(arguments)), environment);
    return environment;
}

value eval(value expression, value environment)
{
    for (;;) {
        if (is(expression, SYMBOL))
            return look_up(expression, environment);
        if (!is(expression, PAIR))
            return expression;
        value head = first(expression), tail = rest(expression);
        if (head == special_quote)
            return first(tail);
        if (head == special_lambda)
            return closure(first(tail), rest(tail), environment);
        if (head == special_define) {
            value made = eval(first(rest(tail)), environment);
            ((struct symbol *)first(tail))->global = made;
            return made;
        }
        if (head == special_if) {
            value test = eval(first(tail), environment);
            tail = rest(tail);
            expression = test ? first(tail) : first(rest(tail));
            continue;
        }
        value body = tail;
        if (head != special_begin) {
            value function = eval(head, environment);
            value arguments = eval_each(tail, environment);
            if (!is(function, CLOSURE))
                return apply(function, arguments);
            struct closure *closure = (struct closure *)function;
            environment = bind(closure->parameters, arguments, closure->environment);
            body = closure->body;
        }
        for (; rest(body); body = rest(body))
            eval(first(body), environment);
        expression = first(body); /* a call at the end takes no stack */
    }
}

value apply(value function, value arguments)
{
    if (is(function, PRIMITIVE))
        return ((struct primitive *)function)->function(arguments);
    if (!is(function, CLOSURE))
        fail("a function was expected");
    struct closure *closure = (struct closure *)function;
    value environment = bind(closure->parameters, arguments, closure->environment), result = 0;
    for (value body = closure->body; body; body = rest(body))
        result = eval(first(body), environment);
    return result;
}

static intptr_t two(value arguments, intptr_t *second)
{
    *second = number_of(first(rest(arguments)));
    return number_of(first(arguments));
}
static value add(value a) { intptr_t y, x = two(a, &y); return number(x + y); }
static value subtract(value a) { intptr_t y, x = two(a, &y); return number(x - y); }
static value less(value a) { intptr_t y, x = two(a, &y); return x < y ? number(1) : NOTHING; }
static value make_pair(value a) { return cons(first(a), first(rest(a))); }
static value get_first(value a) { return first(first(a)); }
static value get_rest(value a) { return rest(first(a)); }
static value show(value a) { print(first(a)); putchar('\n'); return NOTHING; }
static value collect(value a) { (void)a; return number(neap_collect()); }

void primitives_begin(void)
{
    special_if = symbol("if");
    special_quote = symbol("quote");
    special_define = symbol("define");
    special_lambda = symbol("lambda");
    special_begin = symbol("begin");
    primitive("+", add);
    primitive("-", subtract);
    primitive("<", less);
    primitive("cons", make_pair);
    primitive("first", get_first);
    primitive("rest", get_rest);
    primitive("show", show);
    primitive("collect", collect);
}
