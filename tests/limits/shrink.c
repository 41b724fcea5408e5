/* shrink MIB SECONDS MOST_MIB [LATER]: a program that holds MIB megabytes in lists of small
 * objects, drops all but a hundredth, and does nothing more for SECONDS; with LATER it first does
 * nothing for so many seconds, and then drops without allocating anything afterwards. Prints one
 * JSON object; status 0 if no more than MOST_MIB megabytes of memory are resident then, and what is
 * left of the lists is as it was. */
#include <gc/gc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { OBJECT = 64, LISTS = 100, MIB = 1 << 20 };

struct object {
    struct object *next;
    uintptr_t number, rest[OBJECT / sizeof(uintptr_t) - 2];
};

static struct object *lists[LISTS];

static long resident_mib(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        exit(2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE) / MIB;
}

/* A signal of the collector may end a sleep early. */
static void do_nothing(long seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0)
        ;
}

__attribute__((noinline)) static void fill(long objects)
{
    for (int list = 0; list < LISTS; list++)
        for (long number = 0; number < objects / LISTS; number++) {
            struct object *object = GC_MALLOC(OBJECT);
            object->next = lists[list];
            object->number = number;
            lists[list] = object;
        }
}

__attribute__((noinline)) static void drop(void)
{
    for (int list = 1; list < LISTS; list++)
        lists[list] = NULL;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long mib = atol(argv[1]), seconds = atol(argv[2]), most = atol(argv[3]), later = argc > 4
        ? atol(argv[4]) : 0;
    GC_INIT();
    long objects = mib * (MIB / OBJECT);
    fill(objects);
    do_nothing(later);
    long before = resident_mib();
    drop();
    do_nothing(seconds);
    long after = resident_mib(), left = 0;
    for (struct object *object = lists[0]; object != NULL; object = object->next)
        if (object->number != (uintptr_t)(objects / LISTS - ++left))
            return 1;
    int ok = left == objects / LISTS && after <= most;
    printf("{\"resident_mib\": %ld, \"resident_mib_after\": %ld, \"seconds\": %ld, \"collections\": %lu, \"ok\": %s}\n", before, after, seconds,
           (unsigned long)GC_get_gc_no(), ok ? "true" : "false");
    return !ok;
}
