/* leak [GARBAGE [ELSEWHERE [THREADS]]]: a program that keeps what it allocates until there is no
 * more, beside GARBAGE bytes of garbage for each byte kept and ELSEWHERE bytes of malloc for each
 * hundred (both 0 unless told). Ends in its out-of-memory function, with status 0 if that came
 * within three seconds of the heap being full: of the time when 31 of 32 parts of what it could
 * keep in the end were kept. On a machine that has other things to do the processor time counts, if
 * that is less. Prints one JSON object. Status 1: too late, or memory was refused early or
 * damaged. */
#define GC_THREADS
#include <gc/gc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OBJECT = 64, STEP = 1 << 20, STEPS = 1 << 14, LIMIT_MS = 3000 };

struct object {
    struct object *next;
    uintptr_t number, rest[OBJECT / sizeof(uintptr_t) - 2];
};

static struct object *kept[64];
static atomic_size_t kept_bytes;
/* When so many steps were kept, in milliseconds of time and of processor time. */
static double kept_at[STEPS], kept_at_processor[STEPS];
static long garbage, elsewhere;

static double milliseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void *no_memory(size_t bytes)
{
    double now = milliseconds(CLOCK_MONOTONIC), processor = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
    size_t end = atomic_load(&kept_bytes), full = end / 32 * 31 / STEP;
    /* Whole steps are known: one that was begun counts as kept when the one before was. */
    double waited = kept_at[full] == 0 ? 0 : now - kept_at[full];
    double worked = kept_at[full] == 0 ? 0 : processor - kept_at_processor[full];
    int in_time = (waited < worked ? waited : worked) <= LIMIT_MS;
    uintptr_t count = 0;
    for (struct object *object = kept[0]; object != NULL; object = object->next, count++)
        if (object->next != NULL && object->number != object->next->number + 1)
            _exit(1);
    printf("{\"kept_mib\": %.1f, \"asked_bytes\": %zu, \"ms\": %.0f, \"ms_since_full\": %.0f, \"processor_ms_since_full\": %.0f, \"collections\": %lu, \"ok\": %s}\n", (double)end / STEP, bytes,
           now - kept_at[0], waited, worked, (unsigned long)GC_get_gc_no(), in_time ? "true"
               : "false");
    fflush(stdout);
    _exit(!in_time);
}

static void *leak(void *argument)
{
    struct object **list = argument;
    long owed = 0, owed_elsewhere = 0;
    for (uintptr_t number = 1;; number++) {
        struct object *object = GC_MALLOC(OBJECT);
        object->next = *list;
        object->number = number;
        *list = object;
        size_t before = atomic_fetch_add(&kept_bytes, OBJECT), after = before + OBJECT;
        if (before / STEP != after / STEP && after / STEP < STEPS) {
            kept_at[after / STEP] = milliseconds(CLOCK_MONOTONIC);
            kept_at_processor[after / STEP] = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
        }
        for (owed += garbage; owed > 0; owed--)
            *(volatile char *)GC_MALLOC(OBJECT) = 1;
        for (owed_elsewhere += elsewhere * OBJECT / 100; owed_elsewhere >= 4096;
            owed_elsewhere -= 4096)
            memset(malloc(4096), 1, 4096);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    garbage = argc > 1 ? atol(argv[1]) : 0;
    elsewhere = argc > 2 ? atol(argv[2]) : 0;
    long threads = argc > 3 ? atol(argv[3]) : 1;
    GC_INIT();
    GC_set_oom_fn(no_memory);
    GC_set_warn_proc(GC_ignore_warn_proc);
    kept_at[0] = milliseconds(CLOCK_MONOTONIC);
    pthread_t thread;
    for (long other = 1; other < threads && other < 64; other++)
        if (pthread_create(&thread, NULL, leak, &kept[other]) != 0)
            return 1;
    leak(&kept[0]);
}
