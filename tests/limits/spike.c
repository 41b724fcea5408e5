/* spike: a program in a control group of 64 MiB that has 42 MB outside the heap for a moment. How
 * many collections 60 MB of garbage cost it while it has them, and 12 seconds later? Ends with
 * status 0 if that is at most half as many, 2 if the group was not tight to begin with. */
#include <gc/gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OUTSIDE = 42 << 20, KEPT = 5000, OBJECT = 2048, GARBAGE = 30000 };

static void *volatile kept[KEPT];

static unsigned long collections(void)
{
    unsigned long before = (unsigned long)GC_get_gc_no();
    for (int at = 0; at < GARBAGE; at++)
        kept[at % KEPT] = GC_MALLOC(OBJECT);
    return (unsigned long)GC_get_gc_no() - before;
}

int main(void)
{
    GC_INIT();
    char *outside = malloc(OUTSIDE);
    if (outside == NULL)
        return 1;
    memset(outside, 1, OUTSIDE);
    __asm__ volatile("" : : "r"(outside) : "memory");
    collections();
    unsigned long tight = collections();
    free(outside);
    for (time_t end = time(NULL) + 12; time(NULL) < end; usleep(500000))
        collections();
    unsigned long later = collections();
    printf("{\"tight\": %lu, \"later\": %lu}\n", tight, later);
    return tight < 20 ? 2 : later * 2 > tight;
}
