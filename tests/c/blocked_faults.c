/* A thread that has SIGSEGV blocked from before the first cycle, or whose maker had it blocked,
   writes to pages that a cycle watches. For watch=mprotect, where the kernel would end the process.
   Calls itself with every signal blocked. */
#include "check.h"
#include <pthread.h>
#include <signal.h>

enum { NODES = 20000 };

static void block_all(void)
{
    sigset_t all;
    sigfillset(&all);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
}

static void *write_while_marked(void *argument)
{
    void **nodes = neap_alloc(NODES * sizeof(void *));
    for (int i = 0; i < NODES; i++)
        nodes[i] = neap_alloc(64);
    for (int turn = 0; turn < 200; turn++) {
        for (int i = 0; i < NODES; i += 50)
            *(void **)nodes[i] = nodes[(i + turn) % NODES];
        churn(64, 2000);
    }
    CHECK(*(void **)nodes[0] == nodes[199]);
    return argument;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    block_all();
    if (count < 2) {
        execl("/proc/self/exe", arguments[0], "inherited", (char *)NULL);
        CHECK(!"executing itself");
        return finish();
    }
    neap_option_set("min_trigger", "256K");
    neap_option_set("max_pause", "0");
    CHECK_EQUAL(pthread_create(&thread, NULL, write_while_marked, NULL), 0);
    write_while_marked(NULL);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    return finish();
}
