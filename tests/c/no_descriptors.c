/* With no file descriptor left, as where there is no /proc, a main stack deeper than 8 MiB is read
   as a whole. */
#include "check.h"
#include <sys/resource.h>

enum { DEPTH = 20000, STACK = 64 << 20, MARK = 0x600d };

static int lost;

static APART void deeper(int depth)
{
    long *volatile only = neap_alloc(32);
    volatile char frame[1000] = {0};
    *only = MARK;
    if (depth > 0) {
        deeper(depth - 1);
    } else {
        CHECK(neap_collect());
        for (int at = 0; at < 1000000; at++)
            *(volatile long *)neap_alloc(32) = 1;
    }
    lost += *only != MARK + frame[999];
}

int main(int argc, char **argv)
{
    struct rlimit stack, few = {64, 64};
    (void)argc;
    CHECK_EQUAL(getrlimit(RLIMIT_STACK, &stack), 0);
    if (stack.rlim_cur != STACK) {
        stack.rlim_cur = STACK;
        CHECK_EQUAL(setrlimit(RLIMIT_STACK, &stack), 0);
        execv("/proc/self/exe", argv);
        return 1;
    }
    neap_init();
    CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (dup(0) >= 0)
        ;
    deeper(DEPTH);
    CHECK_EQUAL(lost, 0);
    return finish();
}
