/* neap.h: the C interface of Neap, a garbage collector for native programs. Works from C (C89 with
 * <stdint.h> on) and C++.
 *
 * Nothing has to be initialised: the first call starts the collector. Compile and link with what
 * `neap flags c` or `pkg-config neap` print.
 *
 *     #include <neap.h>
 *     struct node *node = neap_alloc(sizeof *node);      // zeroed; freed when nothing points to it
 *                                                        any more
 *
 * What keeps an object alive: a pointer to any of its bytes, in another live object that is
 * scanned, in a thread's stack, registers or thread-local storage (`__thread`,
 * pthread_setspecific with the first 32 keys), in the writable data of the program and its loaded
 * libraries, or in registered roots. Not: a pointer that only memory from malloc or mmap holds
 * (register it, or use an uncollectable object), or a pointer that is stored unaligned or in
 * another form. One just past the bytes that were asked for counts, as compilers may keep that one
 * alone in a loop, while the option `past_end` is on.
 *
 * Conventions. Sizes are bytes. A function that returns int for a yes or no returns 1 or 0. A
 * function that returns a pointer returns null on failure and sets errno (ENOMEM, or EINVAL for a
 * wrong argument). Wrong use changes nothing, returns an error, and is told on standard error, or
 * to the callback of neap_set_misuse_callback.
 *
 * Threads. Every function may be called from any thread unless it says otherwise. None may be
 * called from a signal handler. While the world is stopped (in trace functions, root callbacks,
 * neap_with_stopped_world, and where an event says so) only the functions that say so may be
 * called, and no lock may be taken that another thread could hold, malloc's included.
 *
 * Exceptions. One that leaves a function which the library calls in a cycle, or with the world
 * stopped, ends there; the library reports it on standard error. Where the function was to name
 * what stays alive, that cycle frees nothing.
 */
#ifndef NEAP_H
#define NEAP_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define NEAP_VERSION_MAJOR 0
#define NEAP_VERSION_MINOR 1
#define NEAP_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* Not `malloc`: the out-of-memory callback may give memory that the program knows already. */
#if defined(__GNUC__)
#define NEAP_ALLOCATES(sizes) __attribute__((__warn_unused_result__, __alloc_size__ sizes))
#else
#define NEAP_ALLOCATES(sizes)
#endif

/* The version of the library in use, "MAJOR.MINOR.PATCH". */
const char *neap_version(void);

/* Starts the collector and attaches the calling thread. Never needed; useful to have the cost at a
 * known moment. If the system refuses address space or the signal, the process ends with a message
 * that says what to change. */
void neap_init(void);

/* ---- Outcomes ---- */

typedef enum neap_status {
    NEAP_OK = 0,
    NEAP_NOT_IN_HEAP = 1,          /* not an address of the collected heap */
    NEAP_NOT_AN_OBJECT_START = 2,  /* inside an object, where its start is wanted */
    NEAP_ALREADY_FREE = 3,         /* no object is there (any more) */
    NEAP_BAD_ARGUMENT = 4,
    NEAP_NO_MEMORY = 5,            /* none for the library's own tables; nothing has changed */
    NEAP_NOT_FOUND = 6,            /* nothing is registered there */
    NEAP_OCCUPIED = 7,             /* something else is registered there */
    NEAP_TIMED_OUT = 8,            /* the time is over */
    NEAP_NOT_OWNER = 9             /* the thread is not in the monitor */
} neap_status;

/* The status in words; for any value. */
const char *neap_status_text(int status);

/* Told of wrong use instead of standard error; null: standard error, where the first ten messages
 * of a process appear. The text lives over the call. It is called on the thread that made the
 * mistake, world running, and may end the process, as glibc does on a wrong free. */
typedef void neap_misuse_callback(int status, const char *text, void *environment);
neap_status neap_set_misuse_callback(neap_misuse_callback *callback, void *environment);

/* Told what a program may want to know, such as that memory ran out, instead of standard error (the
 * same ten lines); null: standard error. The text lives for ever and ends with what the number
 * means. World running, on the thread that met the trouble. */
typedef void neap_warning_callback(const char *text, size_t number, void *environment);
neap_status neap_set_warning_callback(neap_warning_callback *callback, void *environment);

/* ---- Allocation ---- */

/* What an object holds, and how long it lives. */
typedef enum neap_kind {
    NEAP_CONSERVATIVE = 0,       /* any word may be a pointer; zeroed */
    NEAP_LEAF = 1,               /* no pointers: never scanned, not zeroed */
    /* as conservative, but lives until neap_free, and what it points to lives as well */
    NEAP_UNCOLLECTABLE = 2,
    NEAP_UNCOLLECTABLE_LEAF = 3  /* as leaf, but lives until neap_free */
} neap_kind;

/* A new object of at least so many bytes; 0 bytes give an object of its own, too. Aligned to 16;
 * without the option `past_end` to 16 if the size is a multiple of 16, else to 8. Null when the
 * limit or the system gives no memory after a collection, and the out-of-memory callback gave none;
 * or for more than PTRDIFF_MAX bytes. The first allocation of a thread attaches it. neap_alloc and
 * neap_alloc_leaf are inline with gcc and clang (neap_inline.h); define NEAP_NO_INLINE before
 * including this file to have calls. */
void *neap_alloc(size_t bytes) NEAP_ALLOCATES((1));
void *neap_alloc_leaf(size_t bytes) NEAP_ALLOCATES((1));
void *neap_alloc_leaf_zeroed(size_t bytes) NEAP_ALLOCATES((1));
void *neap_alloc_uncollectable(size_t bytes) NEAP_ALLOCATES((1));
void *neap_alloc_uncollectable_leaf(size_t bytes) NEAP_ALLOCATES((1));
/* The same, the kind an argument. */
void *neap_alloc_kind(size_t bytes, int kind) NEAP_ALLOCATES((1));
/* As calloc(3): zeroed whatever the kind; null where the product overflows. */
void *neap_alloc_array(size_t count, size_t bytes, int kind) NEAP_ALLOCATES((1, 2));
/* At a multiple of `alignment`, a power of two up to 4096. */
void *neap_alloc_aligned(size_t bytes, size_t alignment, int kind) NEAP_ALLOCATES((1));

/* How many bytes a request of so many takes: what neap_usable_size will say. With the option
 * `past_end` a request of so many takes more. */
size_t neap_good_size(size_t bytes);

/* As realloc(3): keeps kind, layout and finalizer, and contents up to the smaller size; what is
 * gained is unspecified. Links that lie in it, or in what it gives up, stay where they were: they
 * are moved or unregistered before or at once. An object that moves leaves its monitor behind: so
 * leave the monitor before. Null `object`: as neap_alloc. 0 bytes: as neap_free, returns null. On
 * failure the object is as it was. */
void *neap_realloc(void *object, size_t bytes);

/* Makes an object at least so long without moving it: returns the bytes that it has now, 0 if that
 * cannot be. What it gained reads as zero unless it is a leaf. */
size_t neap_resize_in_place(void *object, size_t bytes);

/* Ends an object; its memory comes back now or, while a cycle marks, when marking ends. Needed for
 * uncollectable ones only; for others a hint that saves the collector work. Null is fine. The
 * caller promises that nobody uses the object any more, a finalizer that is ready to run included;
 * one that is not is not run. Links to it have to be unregistered before. */
neap_status neap_free(void *object);

/* Bytes of the object that starts here, at least what was asked for; 0 if none does. */
size_t neap_usable_size(const void *object);

/* The start of the object that the address lies in; null if in none. May be called with the world
   stopped. */
void *neap_base(const void *address);

/* Whether the address lies in the heap, in an object or not. May be called with the world
   stopped. */
int neap_is_heap_address(const void *address);

typedef uint32_t neap_layout;

typedef struct neap_object_info {
    void *start;
    size_t bytes;         /* as neap_usable_size */
    int kind;             /* of enum neap_kind; typed objects are NEAP_CONSERVATIVE */
    neap_layout layout;   /* NEAP_NO_LAYOUT if it is not typed */
} neap_object_info;

/* What is known of the object that the address lies in; 0 if in none. `info` may be null. May be
   called with the world stopped. */
int neap_object_at(const void *address, neap_object_info *info);

/* Whether the cycle that has stopped the world reached the object that the address lies in; 0 if in
 * none. Between NEAP_EVENT_MARK_END and NEAP_EVENT_BEFORE_RESUME. */
int neap_is_marked(const void *address);

/* Calls `visitor` for every object but those that were freed, and for cells that threads hold
 * ready. Only inside neap_with_stopped_world, or from the event callback where the world is
 * stopped; so `visitor` may not allocate or lock. */
typedef void neap_visitor(void *object, size_t bytes, int kind, void *environment);
void neap_for_each_object(neap_visitor *visitor, void *environment);

/* ---- Layouts: typed objects, of which only named words are pointers ---- */

#define NEAP_NO_LAYOUT UINT32_MAX

/* A layout is made once for each type and lives for ever; the same arguments give the same number.
 * NEAP_NO_LAYOUT on failure, and errno says why: EINVAL for a wrong argument, ENOMEM where there is
 * no memory or the process has 65,536 already. Words are 8 bytes. */

/* The object is an array of elements of so many words; bit i % 64 of bits[i / 64] says whether word
   i of an element may be a pointer. */
neap_layout neap_layout_bitmap(size_t element_words, const uint64_t *bits);
/* The first `bytes` bytes are scanned conservatively, the rest is not. */
neap_layout neap_layout_prefix(size_t bytes);

/* Nothing is scanned, and objects are not zeroed: as NEAP_LEAF. A prefix of SIZE_MAX bytes is the
   opposite: as NEAP_CONSERVATIVE. Both are there to be labelled. */
neap_layout neap_layout_leaf(void);
/* A layout that is scanned like another, under a label of the program's own (0: none). It tells
   apart objects that are scanned alike, at no cost per object. */
neap_layout neap_layout_labelled(neap_layout layout, uint32_t label);
/* The label of a layout, 0 for NEAP_NO_LAYOUT. */
uint32_t neap_layout_label(neap_layout layout);

/* A function names the pointers. It runs in every cycle that reaches an object of the layout, once
 * or more, with the world stopped, on the thread that drives the cycle; `bytes` is the object's
 * size. It sees zeroed objects as well, and objects that have died since the last full cycle. It
 * may call neap_trace_*, and what else says that it may be called with the world stopped. */
typedef struct neap_tracer neap_tracer;
typedef void neap_trace_function(void *object, size_t bytes, void *environment,
    neap_tracer *tracer);
neap_layout neap_layout_function(neap_trace_function *function, void *environment);
/* The word may be a pointer to an object; any value is fine. */
void neap_trace_word(neap_tracer *tracer, const void *word);
/* Every aligned word from `low` up to, not including, `high` may be a pointer. The range is
   readable. */
void neap_trace_range(neap_tracer *tracer, const void *low, const void *high);
/* Whether the object that the address lies in was reached already in this cycle. */
int neap_trace_is_marked(const neap_tracer *tracer, const void *object);

/* A zeroed object that is scanned as the layout says. */
void *neap_alloc_typed(size_t bytes, neap_layout layout) NEAP_ALLOCATES((1));

/* ---- Roots ---- */

/* Every aligned word from `low` up to, not including, `high` is a root until it is removed; the
   memory stays readable as long. */
neap_status neap_roots_add(const void *low, const void *high);
/* What lies in the range is no registered root any more; of a longer range the rest stays. */
neap_status neap_roots_remove(const void *low, const void *high);
/* No range is a registered root any more. */
void neap_roots_clear(void);
/* Part of the data of a loaded object that is not to be scanned, such as a large table without
   pointers. */
neap_status neap_roots_exclude(const void *low, const void *high);
/* Whether the writable data of loaded objects are roots; they are (option `static_roots`). */
void neap_set_static_roots(int on);
/* Called in every cycle with the world stopped, on the thread that drives it, to name further roots
   with neap_trace_*. One at a time; null: none. */
typedef void neap_root_callback(neap_tracer *tracer, void *environment);
neap_status neap_set_root_callback(neap_root_callback *callback, void *environment);

/* ---- Threads ---- */

/* Threads need no care: those made with pthread_create are attached before they run, others by
 * their first allocation, and all are detached when they end. A thread that holds pointers but has
 * never allocated or attached, in a program that pthread_create of this library does not see, has
 * to attach. Attached threads are stopped by a signal (option `stop_signal`): pthread_sigmask and
 * sigprocmask leave it unblocked. */

/* Attaches the calling thread; 0 if it was. */
int neap_thread_attach(void);
/* Detaches it; 0 if it was not attached. It must not use objects until it attaches or allocates
   again. */
int neap_thread_detach(void);
int neap_thread_is_attached(void);

/* Runs `function` in a blocked region: the thread is not stopped, and collections do not wait for
 * it. For calls that wait, or that must not be interrupted by the signal. In it the thread reads
 * and writes no object and calls nothing of this file but neap_unblocked; what its stack holds
 * above this call stays alive. `function` returns: it is not left by longjmp or an exception. */
typedef void *neap_function(void *argument);
void *neap_blocked(neap_function *function, void *argument);
/* Inside neap_blocked: runs `function` as an ordinary thread again, as for a callback into the
   program. Elsewhere just runs it. */
void *neap_unblocked(neap_function *function, void *argument);

/* pthread_create(3), pthread_sigmask(3) and so on as this library exports them, by names of their
 * own: for programs whose pthread_create is another's, and for programs with a libneap.a that was
 * built without them. What a thread returns, or gives to pthread_exit, stays alive until it is
 * joined. So a thread that was made here is to be joined or detached here: by libc's own functions
 * it is too, but what it returned stays alive for ever. */
int neap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
    void *argument);
int neap_pthread_join(pthread_t thread, void **result);
int neap_pthread_detach(pthread_t thread);
void neap_pthread_exit(void *result);
#if !defined(__STRICT_ANSI__) || defined(_POSIX_C_SOURCE)
int neap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
#endif
/* The signal that stops threads. */
int neap_stop_signal(void);

/* ---- Stacks that the program makes: fibers, coroutines, makecontext ---- */

typedef struct neap_stack neap_stack;

/* Declares memory as a stack. It is scanned from where it was left last. Null on failure. */
neap_stack *neap_stack_create(void *low, size_t bytes);
/* The calling thread leaves the stack that it runs on and goes on in `to` (null: the one it was
 * started on): call it right before the switch itself. No lock. A stack is run by one thread at a
 * time, which need not be the same always. */
void neap_stack_switch(neap_stack *to);
/* Forgets a stack that nobody runs on or will switch to; its memory is the program's. Null is
   fine. */
void neap_stack_retire(neap_stack *stack);

/* ---- The world of a host: a language's runtime that stops its threads itself ---- */

/* Names a range of roots, as the function that was handed it. */
typedef void neap_range_visitor(const void *low, const void *high, void *visitor);

/* What a host supplies; none may be null. All are called on the thread that drives a cycle, unless
   they say otherwise, and may not allocate from this library. An exception that leaves one ends in
   the library, which reports it on standard error. */
typedef struct neap_world {
    /* Stops the host's threads, but not the caller, and gives 0. Each of them asks
       neap_world_may_stop in its signal handler. Not 0, or an exception: they cannot be stopped and
       none of them stands; the collection is given up then, and `resume` not called. */
    int (*stop)(void *environment);
    /* Lets them go on. */
    void (*resume)(void *environment);
    /* Names to `visit` the host's roots, and the stacks, registers and thread-local storage of its
       threads, the caller's included. World stopped. */
    void (*roots)(neap_range_visitor *visit, void *visitor, void *environment);
    /* Stops the calling thread, which neap_world_may_stop let go on: such as by raising the host's
       signal once more. */
    void (*stop_late)(void *environment);
    /* Whether the calling thread is the host's, and so can stop the others; cycles are left to such
       threads. Any thread; also the library's own, which is not attached: a host that may
       be stopped there too says yes. Then cycles keep up with a program that writes fast by short
       stops, and the last stop of a cycle waits for no thread to come by: `stop`, `resume`, `roots`
       and neap_set_event_callback's function are called on that thread. */
    int (*is_own_thread)(void *environment);
    void *environment;
} neap_world;

/* From the next stop on the world is the host's. Threads of this library that the host does not
 * know are stopped by its own signal as before, after the host's. Once in a process, before other
 * threads of the host use this library. */
neap_status neap_set_world(const neap_world *world);
/* In the host's signal handler, the only place for it: whether this thread may stop where it
 * stands. If not (0), the handler returns without having stopped it, and `stop_late` is called on
 * this thread as soon as it may. Else the number is for neap_world_go_on. */
int neap_world_may_stop(void);
/* In the same handler, when the host has let the thread go, with what neap_world_may_stop gave:
 * waits until `resume` has let go of all, 5 ms at most, so that all go on together. A host need not
 * call it; but where it wakes its threads one by one and there are more of them than processors,
 * those that go on at once may take the processor of the one that is to wake the others. */
void neap_world_go_on(int stopped);

/* ---- Collections ---- */

/* A full collection, complete on return. 0 if none ran: collections are disabled, or held off by
   this thread. */
int neap_collect(void);
/* A collection if enough was allocated for one; whether it ran. For programs that have a good
   moment. */
int neap_collect_if_due(void);
/* As neap_collect, and gives empty memory back to the system at once; otherwise it goes back after
   a while (option `decay`). */
int neap_collect_and_release(void);
/* The latter alone. */
void neap_release_memory(void);
/* Makes the heap so much larger now, so that it need not grow later; 0 if the limit or the system
   refuses. */
int neap_expand(size_t bytes);

/* No collections until as many calls of neap_enable; the heap grows meanwhile. One that runs beside
   the program ends after that. */
void neap_disable(void);
void neap_enable(void);
int neap_is_disabled(void);
/* Whether collections start by themselves, or only when asked for or when memory runs out. They
   do. One that is under way ends after that. */
void neap_set_automatic(int on);
/* Waits for the end of the collection under way, if there is one, not where collections are
   disabled or this thread holds them off. After neap_set_automatic(0), none that nobody asked for
   goes on, so pointers may be hidden. */
void neap_finish_collection(void);

/* No cycle runs until as many calls of neap_release_collections by this thread. Other threads run,
   but one that asks for a cycle waits, as one does that needs memory which only a cycle finds, or
   allocates much; so keep it short. Who only allocates waits a tenth of a second at most: then the
   heap grows. */
void neap_hold_collections(void);
void neap_release_collections(void);

/* Runs `function` with every other attached thread stopped (those in blocked regions go on). It may
   not allocate or take locks. */
void *neap_with_stopped_world(neap_function *function, void *argument);

/* ---- Programs that fork ---- */

/* Before forking workers: collects, and makes permanent what lives then. Children go on sharing its
 * memory, since nothing is marked, swept or allocated there any more; what they allocate comes from
 * fresh pages. Call it again before forking again: what became garbage since the last time is found
 * then. 0 if nothing was done because collections are disabled, or held off by this thread. The
 * option `prefork` does it at every fork. */
int neap_prefork(void);
/* The permanent part alone: what lives now lives until it is freed or neap_unfreeze is called, and
 * later collections neither mark nor sweep it. They do read it. Its finalizers do not run and its
 * links are not cleared. What is allocated afterwards is not permanent. 0 as above. */
int neap_freeze(void);
/* Makes all permanent objects ordinary ones; the next collection finds out which of them live. 0 if
   this thread holds collections off. */
int neap_unfreeze(void);

/* Called with the bytes asked for when there is no memory; the allocation returns what it returns,
 * so null, or memory kept for this. It may collect nothing itself, but may free objects for later,
 * or end the process. World running, no lock held. */
typedef void *neap_out_of_memory_callback(size_t bytes, void *environment);
neap_status neap_set_out_of_memory_callback(neap_out_of_memory_callback *callback,
    void *environment);

/* Sets an option as NEAP_<NAME> would: names and values are those of `neap options`. Null, or what
 * is wrong, as text that lives for ever. Some options count only before the collector starts; the
 * text says so. */
const char *neap_option_set(const char *name, const char *value);

/* ---- Finalizers ---- */

/* Which other objects hold a finalizer back. */
typedef enum neap_order {
    /* not while another finalizable object reaches it; objects on a cycle are never finalized */
    NEAP_ORDER_TOPOLOGICAL = 0,
    NEAP_ORDER_IGNORE_SELF = 1,  /* the same, but pointers from the object to itself are no cycle */
    NEAP_ORDER_NONE = 2,         /* as soon as it is unreachable, in any order */
    /* as topological, and not while an object with an unordered finalizer reaches it */
    NEAP_ORDER_UNREACHABLE = 3
} neap_order;

/* Called once after the object was found dead; it may do anything, make the object live again or
 * set its finalizer anew included. World running, no lock held. */
typedef void neap_finalizer(void *object, void *data);

/* Sets the finalizer of the object that starts at `object`, in place of the one it had; null
 * function: none. `data` is kept alive, so it must not point to the object, or that never dies. */
neap_status neap_finalizer_set(void *object, neap_finalizer *function, void *data, int order);
/* Whether the object that starts at `object` has a finalizer that is not ready to run yet; 0 too
 * for what is no object, and for cells that threads hold ready. */
int neap_finalizer_is_set(const void *object);

/* Finalizers and cleaners run on threads of the library (option `finalizers`), which start with the
 * first registration. They may allocate, lock and register; one that blocks or ends its thread does
 * not hold the others up, and the library reports it on standard error. It reports a C++ exception
 * that leaves one, and drops it. None may be left by longjmp. While more of them wait than the
 * option `finalizer_backlog` says, threads that register wait too.
 *
 * With 0, or the option `finalizers` at `manual`, the library runs none by itself: the program
 * calls neap_finalizers_run. */
void neap_finalizers_set_automatic(int on);
/* How many are ready to run. */
size_t neap_finalizers_ready(void);
/* Runs what is ready, and returns when all that was found dead at the call has run, here or on
 * another thread; returns how many ran here. Called in a finalizer it does not wait. */
size_t neap_finalizers_run(void);
/* Runs every finalizer and cleaner, of live objects as well; for the end of a program. Returns as
   neap_finalizers_run. */
size_t neap_finalizers_run_all(void);

/* ---- Cleaners and reference queues ---- */

/* Called once with its argument after its object is gone; where the object has a finalizer, after
   that. World running, no lock held. */
typedef void neap_cleaner(void *argument);

/* Has `function` run with `argument` after the object that starts at `object` is gone. An object
 * can have any number of cleaners. They do not get the object and cannot bring it back, so its
 * memory is free at once. `argument` is kept alive; it must not lead to the object, or that never
 * dies (NEAP_CHECK=1 tells of that). An object that neap_free frees is not cleaned up after; one
 * that neap_realloc moves keeps its cleaners. `place` is null or a text that lives for ever and
 * says where in the program this is; neap_cleaner_add gives the line. */
neap_status neap_cleaner_add_at(const void *object, neap_cleaner *function, void *argument,
    const char *place);
#define NEAP_TEXT_(x) #x
#define NEAP_TEXT(x) NEAP_TEXT_(x)
#define neap_cleaner_add(object, function, argument) \
    neap_cleaner_add_at((object), (function), (argument), __FILE__ ":" NEAP_TEXT(__LINE__))
/* Takes back one that was added with this function and argument; NEAP_NOT_FOUND if there is none
   (any more). */
neap_status neap_cleaner_remove(const void *object, neap_cleaner *function, void *argument);

/* A queue of values, each of which comes out when its object is gone. */
typedef struct neap_queue neap_queue;

/* Null without memory. */
neap_queue *neap_queue_open(void);
/* Its values are forgotten, and who waits for one gets none. */
neap_status neap_queue_close(neap_queue *queue);
/* `value` comes out of the queue when the object that starts at `object` is gone. It is kept alive
 * until it came out, so it must not lead to the object. Queues need no thread that runs
 * finalizers. */
neap_status neap_queue_add(neap_queue *queue, const void *object, void *value);
/* Takes that back; NEAP_NOT_FOUND if the value is on the queue already, or was never registered. */
neap_status neap_queue_remove(neap_queue *queue, const void *object, void *value);
/* Takes the oldest value off; 0 if there is none. `value` may be null. */
int neap_queue_poll(neap_queue *queue, void **value);
/* The same, and waits for one so many nanoseconds at most (UINT64_MAX: for ever); 0 if none
   came. */
int neap_queue_wait(neap_queue *queue, void **value, uint64_t at_most_ns);

/* ---- Links ---- */

typedef enum neap_link_length {
    /* becomes null when nothing but finalizers could reach the object: they find it null */
    NEAP_LINK_SHORT = 0,
    /* becomes null when the object is gone: one that a finalizer brought back keeps it */
    NEAP_LINK_LONG = 1
} neap_link_length;

/* The word at `link` becomes null when the object that starts at `object` dies. What the word holds
 * is the program's business: store neap_hide(object), since the pointer itself would keep the
 * object alive where the word is scanned. The word stays writable until the link is unregistered or
 * was cleared; a link that lies in an object ends with that object. Registering again follows the
 * new object. */
neap_status neap_link_register(void **link, const void *object, int length);
neap_status neap_link_unregister(void **link, int length);
/* The link is at `to` now; the contents are not copied. */
neap_status neap_link_move(void **from, void **to, int length);
/* The object of a link that holds a hidden pointer, or null; no collection comes between reading
   and returning. */
void *neap_link_read(void *const *link);

#define neap_hide(pointer) ((void *)~(uintptr_t)(pointer))
#define neap_reveal(hidden) ((void *)~(uintptr_t)(hidden))

/* ---- Handles, ephemerons, domains ---- */

/* A handle refers to an object from anywhere: it is a number, so it may lie in any memory, and the
 * object is reached through it only. No function here takes a lock. Numbers are not used again: a
 * handle that was freed, or never was one, gives an error. 0 is no handle. */
typedef uint64_t neap_handle;

typedef enum neap_handle_kind {
    NEAP_HANDLE_STRONG = 1,     /* keeps the object alive */
    /* the same; says that the object's address is in use elsewhere (no object moves) */
    NEAP_HANDLE_PINNED = 2,
    NEAP_HANDLE_WEAK = 3,       /* gives null when nothing but finalizers could reach the object */
    /* gives null when the object is gone: one that a finalizer brought back stays */
    NEAP_HANDLE_WEAK_LONG = 4,
    NEAP_HANDLE_EPHEMERON = 5   /* what neap_ephemeron_alloc makes */
} neap_handle_kind;

/* A handle of one of the first four kinds to an object, or to none (null) yet; 0 and errno on
 * failure. A handle is freed by neap_handle_free, also one whose object died; an object that is
 * freed by neap_free has no handles left. */
neap_handle neap_handle_alloc(const void *object, int kind);
neap_status neap_handle_free(neap_handle handle);
/* The object; null if it has none or the object died. What it returns is alive, however near a
   collection is. May wait a moment for a collection that has not decided about a weak one. */
void *neap_handle_get(neap_handle handle);
/* Makes it refer to another object, or to none. */
neap_status neap_handle_set(neap_handle handle, const void *object);
/* The same if it refers to `expected`; NEAP_OCCUPIED if it does not. */
neap_status neap_handle_compare_and_set(neap_handle handle, const void *expected,
    const void *object);
/* One of enum neap_handle_kind; 0 if it is no handle. */
int neap_handle_kind_of(neap_handle handle);

/* An ephemeron is a key and a value: the value stays alive as long as the ephemeron is not freed
 * and the key is alive otherwise than through the value. When nothing but finalizers could reach
 * the key, both are null from then on. `value` may be null. */
typedef neap_handle neap_ephemeron;
neap_ephemeron neap_ephemeron_alloc(const void *key, const void *value);
neap_status neap_ephemeron_free(neap_ephemeron ephemeron);
/* The value; also the key, where `key` is not null. */
void *neap_ephemeron_get(neap_ephemeron ephemeron, void **key);
/* Gives it another value; NEAP_NOT_FOUND if the key died. */
neap_status neap_ephemeron_set(neap_ephemeron ephemeron, const void *value);
/* The same if the value is `expected`; NEAP_OCCUPIED if it is not. */
neap_status neap_ephemeron_compare_and_set(neap_ephemeron ephemeron, const void *expected,
    const void *value);

/* A domain is a set of handles and ephemerons that are freed together: those of a plug-in, a
   request, a script. NEAP_DEFAULT_DOMAIN is always open. */
typedef uint64_t neap_domain;
#define NEAP_DEFAULT_DOMAIN ((neap_domain)0)
/* 0 and errno on failure; 65,536 can be open at once. */
neap_domain neap_domain_open(void);
/* Frees all its handles; says how many, where `freed` is not null. Other threads may allocate and
   free handles in it meanwhile: what they allocate is refused, or freed too. */
neap_status neap_domain_close(neap_domain domain, size_t *freed);
neap_handle neap_handle_alloc_in(neap_domain domain, const void *object, int kind);
neap_ephemeron neap_ephemeron_alloc_in(neap_domain domain, const void *key, const void *value);

/* ---- Monitors ---- */

/* Every object has a monitor, in which one thread is at a time: a lock that is entered again by its
 * thread, and a condition. It costs nothing until it is entered, then 4 bytes beside the heap, of
 * which there is a page for each 8 KiB of heap in which an object was locked, and more when threads
 * meet in it; it goes with its object. An object whose monitor a thread is in stays alive. Waiting
 * threads do not hold up collections. A thread that ends leaves what it is in, and that is told as
 * wrong use. In the child of a fork the forking thread is in what it was in, and nobody in anything
 * else. */
/* NEAP_NO_MEMORY also where the thread is in it 4,294,967,295 times. */
neap_status neap_monitor_enter(const void *object);
/* NEAP_TIMED_OUT if another thread is in it, now, or for all of so many nanoseconds. */
neap_status neap_monitor_try_enter(const void *object);
neap_status neap_monitor_enter_timed(const void *object, uint64_t nanoseconds);
/* NEAP_NOT_OWNER, here and below, if the calling thread is not in it. */
neap_status neap_monitor_exit(const void *object);
/* Leaves it, however often it was entered, waits to be notified, and enters it again as often. May
   return for no reason: look again at what you wait for. */
neap_status neap_monitor_wait(const void *object);
/* The same; NEAP_TIMED_OUT after so many nanoseconds, and the thread is in the monitor again then
   too. */
neap_status neap_monitor_wait_timed(const void *object, uint64_t nanoseconds);
/* Lets one thread that waits go on once the caller has left, or all. */
neap_status neap_monitor_notify(const void *object, int all);
/* How many monitors have more than their lock word. */
size_t neap_monitors_inflated(void);

/* ---- What happens inside ---- */

/* Counts since the process began; nanoseconds and bytes. The struct grows at its end in later
   versions. */
typedef struct neap_statistics {
    uint64_t cycles;
    uint64_t minor_cycles;
    uint64_t pause_count;            /* stops of the world */
    uint64_t pause_max_ns;
    uint64_t pause_p99_ns;
    uint64_t pause_p50_ns;
    uint64_t pause_total_ns;
    uint64_t peak_bytes;             /* most bytes of blocks in use at once */
    uint64_t live_bytes;             /* what the last cycle found live */
    uint64_t committed_bytes;        /* of the heap, holding memory of the system */
    uint64_t free_bytes;             /* of those, in no block */
    uint64_t metadata_bytes;         /* the collector's own */
    uint64_t allocated_bytes;        /* of cells handed out */
    uint64_t allocated_objects;
    uint64_t allocated_since_cycle;  /* bytes handed out to threads since the last cycle */
    uint64_t freed_since_cycle;      /* bytes freed explicitly since then */
    /* time that the program's threads spent in the collector beside stops: sweeping, helping,
       waiting for cycles */
    uint64_t assist_total_ns;
} neap_statistics;

/* Fills `statistics`, of which the caller says the size (sizeof): fields that the library does not
 * know are 0. Returns the size it knows. Also with the world stopped. */
size_t neap_statistics_read(neap_statistics *statistics, size_t bytes);

/* Writes the graph of all live objects to a file, over what is there, for the memory panel of
 * Chrome's developer tools (which wants a name that ends in .heapsnapshot). The program stands
 * still only while the process is copied; the calling thread waits for the file. Objects with a
 * trace function are scanned conservatively, and what only the root callback names is not shown. 0,
 * or a number of errno. */
int neap_heap_snapshot(const char *path);

/* Steps of a cycle, in their order, on the thread that drives it; a cycle beside the program may
   have several stops between its beginning and its end. Where a stop ends early, since marking
   takes too long, that cycle ends without NEAP_EVENT_MARK_END, and another one begins. An end may
   be told after the next beginning, by another thread. */
typedef enum neap_event {
    NEAP_EVENT_CYCLE_START = 0,    /* the world runs */
    NEAP_EVENT_BEFORE_STOP = 1,    /* it is about to be stopped; may not allocate or lock */
    /* it is; here and in the next three nothing may be allocated or locked */
    NEAP_EVENT_STOPPED = 2,
    NEAP_EVENT_MARK_START = 3,
    /* everything reachable is marked; finalizers and links are not settled */
    NEAP_EVENT_MARK_END = 4,
    NEAP_EVENT_BEFORE_RESUME = 5,
    NEAP_EVENT_RESUMED = 6,        /* the world runs; may not allocate, nor read weak handles */
    NEAP_EVENT_CYCLE_END = 7       /* the world runs, no lock is held, anything may be called */
} neap_event;
typedef void neap_event_callback(int event, void *environment);
neap_status neap_set_event_callback(neap_event_callback *callback, void *environment);

/* Asked before a cycle that the program did not ask for, world running; 0 puts it off a while. Must
 * not allocate: it would be asked again within. */
typedef int neap_cycle_gate(void *environment);
neap_status neap_set_cycle_gate(neap_cycle_gate *gate, void *environment);

#ifdef __cplusplus
}
#endif

#include "neap_inline.h"

#endif
