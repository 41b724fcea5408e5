/* A finalizer that runs within another one forks: in the child both go on, and later finalizers
   run once each. */
#include "check.h"

#include <signal.h>

enum { LATER = 3000, ROUNDS = 3 };

static pid_t child = -1;
static int ran;

static void count(void *object, void *data)
{
    (void)object, (void)data;
    ran++;
}

static APART void drop(neap_finalizer *finalizer, int objects)
{
    for (int at = 0; at < objects; at++)
        neap_finalizer_set(neap_alloc(64), finalizer, NULL, NEAP_ORDER_NONE);
}

static void inner(void *object, void *data)
{
    (void)object, (void)data;
    if (child == -1)
        child = fork();
}

static void outer(void *object, void *data)
{
    (void)object, (void)data;
    if (child == -1) {
        drop(inner, MANY);
        collect();
    }
}

int main(void)
{
    int status = 0;
    neap_init();
    neap_finalizers_set_automatic(0);
    drop(outer, MANY);
    collect();
    CHECK(child != -1);
    for (int round = 0; round < ROUNDS; round++) {
        drop(count, LATER);
        collect();
    }
    CHECK(ran > (LATER - STRAY) * ROUNDS && ran <= LATER * ROUNDS);
    if (child > 0) {
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    return finish();
}
