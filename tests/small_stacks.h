/* Operations of a collector on threads with small stacks: how much of a thread's stack each uses,
   and that each runs on the least one that there is. What a test of one interface includes after
   its check.h. */
#ifndef SMALL_STACKS_H
#define SMALL_STACKS_H
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the library may use of a program's stack. */
enum { MOST = 4 << 10, ROOMY = 512 << 10, PAINT = 0xa5 };

struct operation {
    const char *name;
    void (*run)(void);
};

/* The stack of the thread that is measured, and where it stood before the operation. */
static char *measured_low;
static uintptr_t measured_from;
static pthread_t measured_thread;

static inline uintptr_t stack_pointer(void)
{
    uintptr_t pointer;
    __asm__("mov %%rsp, %0" : "=r"(pointer));
    return pointer;
}

static __attribute__((noinline)) void paint_below(uintptr_t here)
{
    for (volatile char *byte = measured_low; (uintptr_t)byte < here - 256; byte++)
        *byte = (char)PAINT;
}

static size_t depth_below(uintptr_t here)
{
    char *byte = measured_low;
    while (*byte == (char)PAINT)
        byte++;
    return here - (uintptr_t)byte;
}

static void *measured(void *operation)
{
    measured_thread = pthread_self();
    measured_from = stack_pointer();
    paint_below(measured_from);
    ((const struct operation *)operation)->run();
    return NULL;
}

/* Whether a function that the library calls stands elsewhere than on the measured thread's stack,
   though on that thread. Another thread may take a part of a cycle, too. */
static inline int is_astray(const void *frame)
{
    const char *at = frame;
    return measured_low && pthread_equal(pthread_self(), measured_thread) &&
           (at < measured_low || at >= measured_low + ROOMY);
}

static void *plainly(void *operation)
{
    ((const struct operation *)operation)->run();
    return NULL;
}

/* For an operation that forks: whether the child kept to what it may use. Its parent gets to know
   by the status. */
static inline int child_kept_to(size_t most)
{
    size_t depth = measured_low ? depth_below(measured_from) : 0;
    if (depth > most)
        fprintf(stderr, "a child of fork used %zu bytes of its stack, more than %zu\n", depth,
            most);
    return depth <= most;
}

/* A signal may come at any moment: what the kernel puts on the stack for one, and what its handler
   uses. */
static size_t for_a_signal(void)
{
    return getauxval(AT_MINSIGSTKSZ) + 1024;
}

/* Bytes that an operation may use. SIGNALLED says that the library may stop the thread by a signal
   meanwhile. */
static size_t allowed(void)
{
    return MOST + (getenv("SIGNALLED") ? for_a_signal() : 0);
}

/* Runs each operation on a thread of its own, and looks how far down its stack was written when it
   is gone. */
static void measure(const struct operation *operations, int count)
{
    for (int index = 0; index < count; index++) {
        pthread_t thread;
        pthread_attr_t attributes;
        void *stack = mmap(NULL, ROOMY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        measured_low = stack;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack, ROOMY);
        CHECK_EQUAL(pthread_create(&thread, &attributes, measured, (void *)&operations[index]), 0);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        size_t depth = depth_below(measured_from);
        printf("%6zu bytes: %s\n", depth, operations[index].name);
        if (depth > allowed())
            fprintf(stderr, "%s: %zu bytes of the thread's stack, more than %zu\n",
                operations[index].name, depth, allowed());
        CHECK(depth <= allowed());
        munmap(stack, ROOMY);
    }
    measured_low = NULL;
}

/* Runs each operation on threads of LEAST bytes and more. */
static void run_on_small(size_t least, const struct operation *operations, int count)
{
    for (size_t bytes = least; bytes <= least + (32 << 10); bytes += 16 << 10)
        for (int index = 0; index < count; index++) {
            pthread_t thread;
            pthread_attr_t attributes;
            pthread_attr_init(&attributes);
            CHECK_EQUAL(pthread_attr_setstacksize(&attributes, bytes), 0);
            CHECK_EQUAL(pthread_create(&thread, &attributes, plainly, (void *)&operations[index]),
                0);
            CHECK_EQUAL(pthread_join(thread, NULL), 0);
        }
}
#endif
