/* steady MIB GARBAGE_MIB WORK: a program that holds MIB megabytes of small linked objects and makes
 * GARBAGE_MIB megabytes of garbage beside them, computing WORK steps for each object of both, and
 * checks what it holds at the end. Prints its seconds. */
#include <gc/gc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { OBJECT = 64, MIB = 1 << 20 };

struct object {
    struct object *next;
    uintptr_t number, rest[OBJECT / sizeof(uintptr_t) - 2];
};

static struct object *list;

static void compute(long steps)
{
    static volatile uint64_t random = 1;
    while (steps-- > 0)
        random = random * 6364136223846793005u + 1;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long objects = atol(argv[1]) * (MIB / OBJECT), garbage = atol(argv[2]) * (MIB / OBJECT),
        work = atol(argv[3]);
    struct timespec began, end;
    GC_INIT();
    for (long number = 0; number < objects; number++) {
        struct object *object = GC_MALLOC(OBJECT);
        object->next = list;
        object->number = number;
        list = object;
        compute(work);
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (long number = 0; number < garbage; number++) {
        *(volatile char *)GC_MALLOC(OBJECT) = 1;
        compute(work);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (struct object *object = list; object != NULL; object = object->next)
        if (object->number != (uintptr_t)--objects)
            return 1;
    printf("%.3f\n", (double)(end.tv_sec - began.tv_sec)
        + (double)(end.tv_nsec - began.tv_nsec) * 1e-9);
    return objects != 0;
}
