/* grow: a program whose one object grows where it lies, and is used, until there is no more memory.
 * Ends in its out-of-memory function, with status 0. */
#include <gc/gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP = 256 << 10 };

static size_t bytes = STEP;

static void *no_memory(size_t asked)
{
    printf("{\"grown_mib\": %zu, \"asked_bytes\": %zu}\n", bytes >> 20, asked);
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    GC_INIT();
    GC_set_oom_fn(no_memory);
    GC_set_warn_proc(GC_ignore_warn_proc);
    for (char *object = GC_MALLOC_ATOMIC(bytes); object != NULL; bytes += STEP) {
        object = GC_REALLOC(object, bytes + STEP);
        memset(object + bytes, 1, STEP);
    }
    return 1;
}
