/* Warnings of finalizable objects that lie on a cycle: which orders there are any for, one for a
   cycle and collection, and none for chains, live objects and cycles that were broken; all of them
   after a procedure that did not return, too. */
#include "check.h"
#include <setjmp.h>

struct node {
    struct node *next;
    long number;
};

static int warned, others;
static GC_word last;

static void on_warning(char *format, GC_word word)
{
    if (strcmp(format, "GC Warning: Finalization cycle involving %p\n") != 0) {
        others++;
        return;
    }
    /* Hidden, or it would be reached. */
    last = ~word;
    warned++;
}

static int ran;
static void run(void *object, void *data)
{
    (void)object;
    (void)data;
    ran++;
}

typedef void (*registration)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);
static GC_word nodes[MANY][3]; /* hidden */

static struct node *node(int set, int which)
{
    return (struct node *)~nodes[set][which];
}

/* Sets of `length` nodes that each point to the next, and, where it is a cycle, the last to the
   first. Every `finalizable`th has a finalizer. */
static APART void make(registration registers, int length, int is_cycle, int finalizable)
{
    for (int set = 0; set < MANY; set++) {
        for (int which = 0; which < length; which++) {
            struct node *made = GC_malloc(sizeof *made);
            made->number = set;
            nodes[set][which] = ~(GC_word)made;
            if (which > 0)
                node(set, which - 1)->next = made;
            if (which % finalizable == 0)
                registers(made, run, NULL, NULL, NULL);
        }
        if (is_cycle)
            node(set, length - 1)->next = node(set, 0);
    }
}

/* Takes the finalizers back, so that the next test has its own. */
static APART void forget(int length)
{
    for (int set = 0; set < MANY; set++)
        for (int which = 0; which < length; which++)
            if (GC_base(node(set, which)))
                GC_register_finalizer(node(set, which), 0, NULL, NULL, NULL);
}

static APART int is_of_a_set(GC_word hidden, int length)
{
    for (int set = 0; set < MANY; set++)
        for (int which = 0; which < length; which++)
            if (nodes[set][which] == hidden)
                return 1;
    return 0;
}

/* How many warnings a collection brings, when the first is over. */
static int warnings(registration registers, int length, int is_cycle, int finalizable)
{
    int first;
    make(registers, length, is_cycle, finalizable);
    warned = 0;
    clear_stack();
    GC_gcollect();
    GC_invoke_finalizers();
    first = warned;
    if (is_cycle && first > 0) {
        CHECK(is_of_a_set(last, length));
        warned = 0;
        clear_stack();
        GC_gcollect();
        CHECK_NEARLY_ALL(warned);
        forget(length);
        warned = 0;
        collect();
        CHECK(warned <= STRAY);
    }
    return first;
}

static struct node *live[MANY];

static APART void of_live_ones(void)
{
    make(GC_register_finalizer, 2, 1, 1);
    for (int set = 0; set < MANY; set++)
        live[set] = node(set, 0);
    warned = 0;
    collect();
    CHECK_EQUAL(warned, 0);
    /* Broken, so that they are finalized. */
    ran = 0;
    for (int set = 0; set < MANY; set++)
        live[set]->next->next = NULL;
    memset(live, 0, sizeof live);
    collect();
    CHECK_EQUAL(warned, 0);
    CHECK(ran >= 2 * (MANY - STRAY));
}

static jmp_buf out;
static void jump(char *format, GC_word word)
{
    (void)format, (void)word;
    warned++;
    longjmp(out, 1);
}

/* A procedure that does not return ends the warnings of its collection, and of no other. */
static void after_a_jump(void)
{
    make(GC_register_finalizer, 1, 1, 1);
    GC_set_warn_proc(jump);
    for (volatile int turn = 0; turn < 3; turn++)
        if (!setjmp(out)) {
            clear_stack();
            GC_gcollect();
        }
    CHECK_EQUAL(warned, 3);
    GC_set_warn_proc(on_warning);
    warned = 0;
    clear_stack();
    GC_gcollect();
    CHECK_NEARLY_ALL(warned);
    forget(1);
}

/* Without a procedure of the program's it is a line on standard error. */
static void to_standard_error(void)
{
    make(GC_register_finalizer, 1, 1, 1);
    clear_stack();
    GC_gcollect();
}

int main(void)
{
    GC_INIT();
    GC_warn_proc standard = GC_get_warn_proc();
    GC_set_warn_proc(on_warning);
    /* A pointer to itself, two, three with one that has a finalizer. */
    CHECK_NEARLY_ALL(warnings(GC_register_finalizer, 1, 1, 1));
    CHECK_NEARLY_ALL(warnings(GC_register_finalizer, 2, 1, 1));
    CHECK_NEARLY_ALL(warnings(GC_register_finalizer, 3, 1, 3));
    CHECK_NEARLY_ALL(warnings(GC_register_finalizer_ignore_self, 2, 1, 1));
    CHECK_NEARLY_ALL(warnings(GC_register_finalizer_unreachable, 2, 1, 1));
    CHECK_EQUAL(warnings(GC_register_finalizer_ignore_self, 1, 1, 1), 0);
    CHECK_EQUAL(warnings(GC_register_finalizer_no_order, 2, 1, 1), 0);
    CHECK_EQUAL(warnings(GC_register_finalizer, 3, 0, 1), 0);
    collect();
    of_live_ones();
    CHECK_EQUAL(others, 0);
    warned = 0;
    if (on_neap()) /* libgc warns with its lock held */
        after_a_jump();

    GC_set_warn_proc(standard);
    const char *text = capture(2, to_standard_error);
    char expected[100];
    int lines = 0;
    for (int set = 0; set < MANY; set++) {
        snprintf(expected, sizeof expected, "GC Warning: Finalization cycle involving %p\n",
            (void *)node(set, 0));
        lines += strstr(text, expected) != NULL;
    }
    CHECK_NEARLY_ALL(lines);
    GC_set_warn_proc(GC_ignore_warn_proc);
    CHECK_EQUAL(strlen(capture(2, GC_gcollect)), 0);
    return finish();
}
