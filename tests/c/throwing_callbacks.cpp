/* Exceptions that leave a function which the collector calls in the middle of a cycle: roots, trace
   functions, events, the gate, what runs in a stopped world, and each function of a host. Nothing
   that lives is freed, nobody hangs, and cycles free again when it is over. Usage:
   throwing_callbacks program|host. */
#include "check.h"
#include <pthread.h>
#include <stdexcept>

static volatile bool throws;
static volatile int thrown;

static void maybe_throw()
{
    if (throws) {
        thrown++;
        throw std::runtime_error("thrown into the collector");
    }
}

/* A list whose links nobody but a trace function finds, and whose head only a root callback
   names. */
struct node {
    void *hidden_next;
    intptr_t number;
};
enum { LENGTH = 300 };
static void *hidden_head;
static neap_layout layout;

static void trace(void *object, size_t, void *, neap_tracer *tracer)
{
    maybe_throw();
    node *one = (node *)object;
    if (one->hidden_next)
        neap_trace_word(tracer, neap_reveal(one->hidden_next));
}

static void name_roots(neap_tracer *tracer, void *)
{
    maybe_throw();
    if (hidden_head)
        neap_trace_word(tracer, neap_reveal(hidden_head));
}

static APART void make_list()
{
    hidden_head = NULL;
    for (int i = 0; i < LENGTH; i++) {
        node *one = (node *)neap_alloc_typed(sizeof(node), layout);
        one->hidden_next = hidden_head;
        one->number = i;
        hidden_head = neap_hide(one);
    }
    clear_stack();
}

static APART bool is_whole()
{
    int expected = LENGTH;
    for (void *place = hidden_head; place; expected--) {
        node *one = (node *)neap_reveal(place);
        if (neap_base(one) != one || one->number != expected - 1)
            return false;
        place = one->hidden_next;
    }
    return expected == 0;
}

/* Allocates enough for some cycles; what dies is not kept. */
static APART void allocate()
{
    for (int i = 0; i < 40000; i++)
        *(char *)neap_alloc(16 + i % 200) = 1;
    clear_stack();
}

static APART void make_watched()
{
    for (int i = 0; i < MANY; i++)
        watch(i, neap_alloc(40));
    clear_stack();
}

/* Cycles while it throws, and after. `frees_nothing`: those that throw must not free. */
static void try_out(bool frees_nothing)
{
    make_list();
    make_watched();
    thrown = 0;
    throws = true;
    neap_collect();
    allocate();
    neap_collect();
    throws = false;
    CHECK(thrown > 0);
    CHECK(is_whole());
    if (frees_nothing)
        CHECK_ALL_ALIVE(0);
    collect();
    CHECK(is_whole());
    CHECK_DEAD(0);
}

static int throwing_event;

static void on_event(int event, void *)
{
    if (event == throwing_event)
        maybe_throw();
}

static int gate(void *)
{
    maybe_throw();
    return 1;
}

static void visit(void *, size_t, int, void *)
{
    maybe_throw();
}

static char walks_heap;

static void *in_stopped_world(void *walks)
{
    if (walks)
        neap_for_each_object(visit, NULL);
    else
        maybe_throw();
    return &walks_heap;
}

static void by_program()
{
    neap_set_root_callback(name_roots, NULL);
    try_out(true);
    for (throwing_event = NEAP_EVENT_CYCLE_START; throwing_event <= NEAP_EVENT_CYCLE_END;
         throwing_event++) {
        fprintf(stderr, "event %d\n", throwing_event);
        neap_set_root_callback(NULL, NULL);
        neap_set_event_callback(on_event, NULL);
        hidden_head = NULL;
        thrown = 0;
        throws = true;
        allocate();
        neap_collect();
        throws = false;
        CHECK(thrown > 0);
        neap_set_root_callback(name_roots, NULL);
        make_list();
        collect();
        CHECK(is_whole());
    }
    neap_set_event_callback(NULL, NULL);
    neap_set_cycle_gate(gate, NULL);
    try_out(false);
    neap_set_cycle_gate(NULL, NULL);
    throws = true;
    CHECK(neap_with_stopped_world(in_stopped_world, NULL) == NULL);
    CHECK(neap_with_stopped_world(in_stopped_world, &walks_heap) == NULL);
    throws = false;
    CHECK(neap_with_stopped_world(in_stopped_world, &walks_heap) == &walks_heap);
    try_out(true);
}

/* ---- A host with one thread, that of the program ---- */

enum { STOP, RESUME, ROOTS, OWN_THREAD, FUNCTIONS };
static int throwing_function = -1, refuses, stands;
static char *base;
static __thread bool is_own;

static void maybe_throw_in(int function)
{
    if (function == throwing_function)
        maybe_throw();
}

static int stop(void *)
{
    maybe_throw_in(STOP);
    if (refuses) {
        thrown++;
        return 1;
    }
    stands++;
    return 0;
}

static void resume(void *)
{
    CHECK_EQUAL(stands, 1);
    stands--;
    maybe_throw_in(RESUME);
}

static void roots(neap_range_visitor *visit, void *visitor, void *)
{
    CHECK_EQUAL(stands, 1);
    maybe_throw_in(ROOTS);
    visit(__builtin_frame_address(0), base, visitor);
}

static void stop_late(void *)
{
}

static int is_own_thread(void *)
{
    maybe_throw_in(OWN_THREAD);
    return is_own;
}

static void *foreign(void *)
{
    allocate();
    return NULL;
}

static void by_host()
{
    neap_world world = {stop, resume, roots, stop_late, is_own_thread, NULL};
    CHECK_EQUAL(neap_set_world(&world), NEAP_OK);
    is_own = true;
    neap_set_root_callback(name_roots, NULL);
    make_list();
    collect();
    neap_set_root_callback(NULL, NULL);
    for (int round = 0; round < 3; round++)
        for (int function = 0; function <= FUNCTIONS; function++) {
            fprintf(stderr, "function %d\n", function);
            throwing_function = function;
            refuses = function == FUNCTIONS;
            make_watched();
            thrown = 0;
            throws = true;
            /* Now only: a cycle of this thread's that nothing throws in would free some. */
            pthread_t thread;
            CHECK_EQUAL(pthread_create(&thread, NULL, foreign, NULL), 0);
            if (refuses || function == STOP) {
                CHECK(!neap_collect());
                CHECK(neap_with_stopped_world(in_stopped_world, NULL) == NULL);
            }
            allocate();
            neap_collect();
            throws = false;
            refuses = 0;
            throwing_function = -1;
            CHECK(thrown > 0);
            CHECK_EQUAL(pthread_join(thread, NULL), 0);
            if (function == STOP || function == FUNCTIONS || function == OWN_THREAD)
                CHECK_ALL_ALIVE(0);
            collect();
            CHECK_DEAD(0);
            CHECK_EQUAL(stands, 0);
        }
}

int main(int argc, char **argv)
{
    base = (char *)__builtin_frame_address(0) + 64;
    alarm(100);
    layout = neap_layout_function(trace, NULL);
    if (argc > 1 && strcmp(argv[1], "host") == 0)
        by_host();
    else
        by_program();
    return finish();
}
