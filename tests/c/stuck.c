/* A finalizer that does not come back is told of after 10 s, once, by its name; those behind it
   have run long before. */
#include "check.h"
#include <fcntl.h>
#include <time.h>

enum { TOLD_AFTER = 10, PATIENCE = 20 };

static int done;

static void count(void *argument)
{
    (void)argument;
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
}

/* Not static: names of dynamic symbols are the ones that can be told. */
void waits_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        pause();
}

static APART void add(neap_cleaner *function, int number)
{
    for (int i = 0; i < number; i++)
        CHECK_EQUAL(neap_cleaner_add(neap_alloc(32), function, NULL), NEAP_OK);
    clear_stack();
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int times(const char *said, const char *text)
{
    int found = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; at++)
        found++;
    return found;
}

int main(void)
{
    /* What the library says, instead of standard error; `stderr` of this program goes on where it
       went. */
    int ends[2], before = dup(STDERR_FILENO);
    CHECK_EQUAL(pipe2(ends, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);

    /* A word on a stack may keep an object: not all that wait have to be found. */
    add(waits_for_ever, 3);
    add(count, 10 * MANY);
    by_hand = 1;
    collect();
    double began = seconds(), first = 0;
    static char said[1 << 16];
    size_t length = 0;
    /* Some seconds beyond the first: what is told twice is found out. */
    while (seconds() - began < (first != 0 ? TOLD_AFTER + 4 : PATIENCE)) {
        ssize_t got = read(ends[0], said + length, sizeof said - 1 - length);
        if (got > 0)
            length += (size_t)got;
        if (first == 0 && strstr(said, "waits_for_ever") != NULL)
            first = seconds() - began;
        if (seconds() - began < TOLD_AFTER / 2)
            CHECK(first == 0);
        else
            CHECK(__atomic_load_n(&done, __ATOMIC_RELAXED) >= 10 * MANY - STRAY);
        usleep(20000);
    }
    dup2(before, STDERR_FILENO);
    int told = times(said, "waits_for_ever");
    if (told < 1 || told > 3 || first < TOLD_AFTER)
        fprintf(stderr, "told %d times, first after %.1f s: %s\n", told, first, said);
    CHECK(told >= 1 && told <= 3);
    CHECK(first >= TOLD_AFTER - 0.5);
    fflush(stderr);
    _exit(finish());
}
