/* still SECONDS [NEIGHBOURS]: what the machine alone, and NEIGHBOURS processes that spin, do to a
 * program of two busy threads; prints the longest time for which one of them did not run.
 *
 * The control of `pauses`: there too one thread works and another marks. Whatever else wants a
 * processor takes it from one of them, and a pause that is measured contains that. Without a
 * collector, without allocation. */
#include <pthread.h>
#include "neighbours.h"

static double seconds;

/* Looks at the clock as fast as it can; gives the longest step in nanoseconds. */
static void *look(void *longest)
{
    uint64_t began = bench_nanoseconds(), end = began + (uint64_t)(seconds * 1e9), last = began;
    uint64_t *most = longest;
    for (uint64_t now = began; now < end; last = now) {
        now = bench_nanoseconds();
        if (now - last > *most)
            *most = now - last;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    seconds = (double)bench_argument(argc, argv, 1, "SECONDS", 10, 1, 3600);
    neighbours_start(bench_argument(argc, argv, 2, "NEIGHBOURS", 0, 0, MOST_NEIGHBOURS));
    uint64_t longest[2] = {0, 0};
    pthread_t other;
    if (pthread_create(&other, NULL, look, &longest[1]) != 0)
        return 1;
    look(&longest[0]);
    pthread_join(other, NULL);
    double most = (double)(longest[0] > longest[1] ? longest[0] : longest[1]);
    printf("{\"program\": \"still\", \"longest_pause_ms\": %.3f, \"operation_us\": {\"max\": %.3f}, \"ok\": %s}\n",
        most * 1e-6, most * 1e-3, most > 0 ? "true" : "false");
    return most > 0 ? 0 : 1;
}
