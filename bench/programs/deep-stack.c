/* deep-stack [SIZE [SECONDS [RATE]]]: a thread with SIZE bytes of pointers on its stack, as a deep
 * recursion has them. Of those that lie at the end it replaces RATE a second, the others stay.
 *
 * How long does it stand while they are read? The check: every entry is right at each turn and at
 * the end. */
#include <alloca.h>
#include <pthread.h>
#include "large-roots.h"

/* Entries at the end of the stack: 64 KB. */
enum { LIVELY = (64 << 10) / sizeof(struct entry *) };

static size_t bytes;
static long seconds, rate;
static int status = 1;

static void *deep(void *unused)
{
    (void)unused;
    struct entry **table = alloca(bytes);
    memset(table, 0, bytes);
    size_t entries = bytes / sizeof *table;
    struct large_roots roots = {table, entries, entries < LIVELY ? entries : LIVELY, 8};
    status = large_roots_run("deep-stack", &roots, seconds, rate);
    return NULL;
}

int main(int argc, char **argv)
{
    bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 8 << 20);
    seconds = bench_argument(argc, argv, 2, "SECONDS", 5, 1, 3600);
    rate = bench_argument(argc, argv, 3, "RATE", 50000, 1, 10000000);
    bench_gc_start();
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, bytes + (1 << 20)) != 0 ||
        pthread_create(&thread, &attributes, deep, NULL) != 0) {
        fprintf(stderr, "%s: no thread with a stack of %zu bytes\n", argv[0], bytes);
        return 1;
    }
    pthread_join(thread, NULL);
    return status;
}
