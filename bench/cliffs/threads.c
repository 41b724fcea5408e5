/* threads COUNT HOW [RATE [SECONDS]]: one thread makes RATE operations a second on 64 MB of small
 * live objects, while COUNT others are idle: blocked in `sem_wait`, in `read`, or in a `futex` of
 * their own call.
 *
 * What do sleepers cost whoever works? The check: each holds an object on its stack alone, which
 * is as it was when it wakes; and that of pauses.c. */
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../programs/tree_of_maps.h"
#include "operations.h"

enum { MOST_THREADS = 10000, STACK_BYTES = 128 << 10, LIVE_BYTES = 64 << 20 };
enum how { SEM_WAIT, READ, FUTEX };

static const char *const names[] = {"sem_wait", "read", "futex"};
static enum how how;
static sem_t semaphore, asleep;
static int channel[2];
static uint32_t go;
static uint64_t woke_right;
static pthread_t threads[MOST_THREADS];
static struct tree tree;

static void wait_idle(void)
{
    char byte;
    switch (how) {
    case SEM_WAIT:
        while (sem_wait(&semaphore) != 0)
            ;
        break;
    case READ:
        while (read(channel[0], &byte, 1) != 1)
            ;
        break;
    case FUTEX:
        while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) == 0)
            syscall(SYS_futex, &go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        break;
    }
}

static void wake_all(long count)
{
    char byte = 0;
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    if (how == FUTEX)
        syscall(SYS_futex, &go, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    for (long i = 0; i < count; i++) {
        if (how == SEM_WAIT)
            sem_post(&semaphore);
        else if (how == READ && write(channel[1], &byte, 1) != 1)
            exit(1);
    }
}

static void *idle(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    uint64_t *volatile object = bench_gc_allocate(64);
    object[0] = number;
    object[7] = bench_mix(number);
    sem_post(&asleep);
    wait_idle();
    if (object[0] == number && object[7] == bench_mix(number))
        __atomic_add_fetch(&woke_right, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void start_idle(long count)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (long i = 0; i < count; i++) {
        if (pthread_create(&threads[i], &attributes, idle, (void *)(uintptr_t)(i + 1)) != 0) {
            fprintf(stderr, "only %ld threads could be made\n", i);
            exit(1);
        }
    }
    for (long i = 0; i < count; i++)
        while (sem_wait(&asleep) != 0)
            ;
}

int main(int argc, char **argv)
{
    long count = bench_argument(argc, argv, 1, "COUNT", 256, 0, MOST_THREADS);
    while (argc > 2 && how <= FUTEX && strcmp(argv[2], names[how]) != 0)
        how++;
    if (argc < 3 || how > FUTEX) {
        fprintf(stderr, "usage: %s COUNT sem_wait|read|futex [RATE [SECONDS]]\n", argv[0]);
        return 2;
    }
    long rate = bench_argument(argc, argv, 3, "RATE", 200000, 0, 100000000);
    long seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    sem_init(&semaphore, 0, 0);
    sem_init(&asleep, 0, 0);
    if (pipe(channel) != 0)
        return 1;
    tree_build(&tree, LIVE_BYTES);
    start_idle(count);
    uint64_t random = 0x5eed, wrong = 0;
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        wrong += !tree_replace_one(&tree, &random);
        bench_gc_garbage(16, 64);
        operations_done(operations);
    }
    printf("{\"program\": \"threads\", \"idle\": %ld, \"how\": \"%s\"", count, names[how]);
    operations_print(operations, 1);
    bench_print_measured_stops();
    wake_all(count);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    wrong += tree_count_right(&tree) != tree.keys || woke_right != (uint64_t)count;
    printf(", \"wrong\": %" PRIu64, wrong);
    return bench_gc_finish(wrong == 0);
}
