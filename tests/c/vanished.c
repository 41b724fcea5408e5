/* A thread that used the collector ends without libc's knowing, and its stack goes: no cycle reads
   it, neither one that stops all threads nor one beside the program that stops them one by one. */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { OBJECTS = 300000, STACK = 1 << 20 };

static void *vanish(void *argument)
{
    CHECK(neap_alloc(64) != NULL);
    syscall(SYS_exit, 0);
    return argument;
}

int main(void)
{
    /* More than a short stop marks. */
    void **table = neap_alloc_uncollectable(OBJECTS * sizeof *table);
    for (int at = 0; at < OBJECTS; at++)
        table[at] = neap_alloc(64);
    neap_collect();
    for (int turn = 0; turn < 4; turn++) {
        void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED);
        pthread_attr_t attributes;
        pthread_t thread;
        CHECK(pthread_attr_init(&attributes) == 0);
        CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0);
        CHECK(pthread_create(&thread, &attributes, vanish, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(munmap(stack, STACK) == 0);
        neap_collect();
        CHECK(table[turn] != NULL);
    }
    return finish();
}
