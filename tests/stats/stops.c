/* stops: threads that allocate, keep and write while cycles run, until there were some of them;
   then no cycle begins any more, the program says "ready" and waits for the end of its input:
   tests/stats/run.sh compares what everything says of its stops. `stops many` has more threads;
   `stops inside` waits in a cycle
   that has stopped it and that cannot end: its last stop, in which a function of the program is
   called, waits for a thread of the program that allocates. */
#include <neap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEW = 3, MANY = 12, KEPT = 20000, WORDS = 6, ROUNDS = 400000 };

/* A tree's worth of pages, written all over while they are marked. */
static void *work(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    void **kept = neap_alloc(KEPT * sizeof(void *));
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1103515245u + 12345u;
        void **node = neap_alloc(WORDS * sizeof(void *));
        unsigned place = (state >> 8) % KEPT;
        node[0] = kept[(place + 1) % KEPT];
        node[1] = NULL;
        if (node[0])
            ((void **)node[0])[0] = NULL;
        kept[place] = node;
    }
    return kept[0];
}

/* Waits until the cycle under way has had no stop for half a second: it waits for this thread.
   Whether none ended meanwhile, after `cycles` before. */
static int waits_for_the_last_stop(uint64_t cycles)
{
    neap_statistics before, now;
    neap_statistics_read(&now, sizeof now);
    do {
        before = now;
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        neap_statistics_read(&now, sizeof now);
    } while (now.pause_count != before.pause_count);
    return now.cycles == cycles;
}

/* Stops that are over in the cycle under way. */
static atomic_int over;
static void *volatile dropped;

static void count(int event, void *unused)
{
    (void)unused;
    if (event == NEAP_EVENT_CYCLE_START || event == NEAP_EVENT_CYCLE_END)
        over = 0;
    else if (event == NEAP_EVENT_RESUMED)
        over++;
}

/* Has no roots, but is called in stops of the world. */
static void no_roots(neap_tracer *tracer, void *unused)
{
    (void)tracer, (void)unused;
}

int main(int argc, char **argv)
{
    int inside = argc > 1 && strcmp(argv[1], "inside") == 0;
    int wanted = argc > 1 && !inside ? MANY : FEW;
    pthread_t threads[MANY];
    for (int i = 0; i < wanted; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(size_t)(i + 1)))
            return 1;
    for (int i = 0; i < wanted; i++)
        pthread_join(threads[i], NULL);
    neap_collect();
    if (inside) {
        /* Too much to be marked in one short stop. */
        static void **volatile list;
        for (int i = 0; i < 200000; i++) {
            void **node = neap_alloc(WORDS * sizeof(void *));
            node[0] = (void *)list;
            list = node;
        }
        neap_set_event_callback(count, NULL);
        neap_set_root_callback(no_roots, NULL);
        neap_collect();
        /* One allocation may have carried a cycle to its last stop, after which it ends without
           this thread, or to its end: then the next cycle is the one. */
        neap_statistics now;
        do {
            neap_statistics_read(&now, sizeof now);
            over = 0;
            while (over == 0)
                dropped = neap_alloc(WORDS * sizeof(void *));
        } while (!waits_for_the_last_stop(now.cycles));
    } else {
        neap_disable();
        neap_collect();
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
