/* stops: threads that allocate, keep and write while cycles run, until there were some of them;
   then no cycle begins any more, the program says "ready" and waits for the end of its input:
   tests/stats/run.sh compares what everything says of its stops. */
#include <neap.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, KEPT = 20000, WORDS = 6, ROUNDS = 400000 };

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

int main(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    neap_collect();
    neap_disable();
    neap_collect();
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
