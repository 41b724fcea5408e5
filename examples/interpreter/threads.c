/* threads.c: (thread f) calls f on a thread of its own, (join thread) waits for what it gives. The
 * program's globals are shared; each thread has its own environments. */
#include "value.h"

#include <neap.h>
#include <pthread.h>

struct thread { uintptr_t type; value function; pthread_t id; };

static void *run(void *argument)
{
    struct thread *thread = argument; /* from here on our stack holds it */
    return (void *)apply(thread->function, NOTHING);
}

static value make_thread(value arguments)
{
    struct thread *thread = neap_alloc(sizeof *thread);
    thread->type = THREAD;
    thread->function = first(arguments);
    if (pthread_create(&thread->id, NULL, run, thread) != 0)
        fail("no thread");
    return (value)thread;
}

static value join(value arguments)
{
    void *result; /* alive until we have it */
    if (!is(first(arguments), THREAD))
        fail("a thread was expected");
    pthread_join(((struct thread *)first(arguments))->id, &result);
    return (value)result;
}

void threads_begin(void)
{
    primitive("thread", make_thread);
    primitive("join", join);
}
