/* growing-stack [SIZE [RATE [SECONDS]]]: a thread whose stack grows to SIZE bytes, stays there for
 * so many operations as it took to grow, and shrinks again, over and over; RATE operations a
 * second.
 *
 * An operation makes 4 KB of garbage; while the stack grows it also calls one level deeper and
 * fills the frame, 64 KB of pointers to objects that nothing else keeps. How long does the thread
 * stand while what grew is read? The check: when a level returns, all that its frame points to is
 * as it was made. */
#include <pthread.h>

#include "operations.h"

enum { FRAME_BYTES = 64 << 10, SLOTS = FRAME_BYTES / sizeof(void *), SHARED = 128 };

struct object {
    uint64_t level, check;
};

static size_t bytes;
static long rate, seconds, levels;
static uint64_t wrong;
static struct operations *operations;

/* One level: an operation that fills its frame, then what is deeper, then its check. False when the
   time is up. */
__attribute__((noinline)) static bool grow(long level)
{
    struct object *frame[SLOTS];
    if (!operations_next(operations))
        return false;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        if (slot % SHARED == 0) {
            frame[slot] = bench_gc_allocate(sizeof **frame);
            *frame[slot] = (struct object){(uint64_t)level, bench_mix((uint64_t)level + slot)};
        } else {
            frame[slot] = frame[slot - 1];
        }
    }
    bench_keep(frame);
    bench_gc_garbage(64, 64);
    operations_done(operations);
    bool goes_on = true;
    if (level + 1 < levels) {
        goes_on = grow(level + 1);
    } else {
        for (long i = 0; i < levels && (goes_on = operations_next(operations)); i++) {
            bench_gc_garbage(64, 64);
            operations_done(operations);
        }
    }
    for (size_t slot = 0; slot < SLOTS; slot++) {
        size_t first = slot - slot % SHARED;
        wrong += frame[slot]->level != (uint64_t)level ||
            frame[slot]->check != bench_mix((uint64_t)level + first);
    }
    return goes_on;
}

static void *work(void *unused)
{
    (void)unused;
    operations_begin(operations, rate, seconds, 0);
    while (grow(0))
        ;
    return NULL;
}

int main(int argc, char **argv)
{
    bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 64 << 20);
    rate = bench_argument(argc, argv, 2, "RATE", 20000, 0, 10000000);
    seconds = bench_argument(argc, argv, 3, "SECONDS", 10, 1, 3600);
    levels = (long)(bytes / FRAME_BYTES) + 1;
    bench_gc_start();
    operations = operations_make(1);
    bench_measure_stops();
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, bytes + bytes / 8 + (1 << 20)) != 0 ||
        pthread_create(&thread, &attributes, work, NULL) != 0) {
        fprintf(stderr, "%s: no thread with a stack of %zu bytes\n", argv[0], bytes);
        return 1;
    }
    pthread_join(thread, NULL);
    printf("{\"program\": \"growing-stack\", \"bytes\": %zu, \"wrong\": %" PRIu64, bytes, wrong);
    operations_print(operations, 1);
    bench_print_measured_stops();
    return bench_gc_finish(wrong == 0);
}
