/* handles KIND THREADS MILLIONS: every thread makes a handle of KIND (weak, strong, pinned) to its
 * object, reads it and frees it, MILLIONS million times; turns per second.
 *
 * The same loop as peers/Handles.cs. Only on neap.h. Invariant: every read gives the object that
 * the handle was made for, or the program says that it is not ok. */
#include "bench.h"
#include <neap.h>
#include <pthread.h>

static int kind;
static long turns;
static int wrong;

static void *run(void *argument)
{
    void *object = neap_alloc(24);
    (void)argument;
    for (long turn = 0; turn < turns; turn++) {
        neap_handle handle = neap_handle_alloc(object, kind);
        if (neap_handle_get(handle) != object)
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        neap_handle_free(handle);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"", "strong", "pinned", "weak"};
    for (int i = 1; i < 4; i++)
        if (argc > 1 && strcmp(argv[1], kinds[i]) == 0)
            kind = i;
    if (kind == 0) {
        fprintf(stderr, "%s: the first argument must be weak, strong or pinned\n", argv[0]);
        return 2;
    }
    long threads = bench_argument(argc, argv, 2, "THREADS", 1, 1, 64);
    turns = bench_argument(argc, argv, 3, "MILLIONS", 10, 1, 100000) * 1000000;
    pthread_t thread[64];
    double began = bench_seconds();
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, run, NULL) != 0)
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    double seconds = bench_seconds() - began;
    printf("{\"program\":\"handles\",\"kind\":\"%s\",\"threads\":%ld,\"millions_per_second\":%.3f,\"seconds\":%.3f,\"library_version\":\"%s\",\"ok\":%s}\n",
           kinds[kind], threads, (double)threads * turns / seconds * 1e-6, seconds, neap_version(),
               wrong ? "false" : "true");
    return wrong;
}
