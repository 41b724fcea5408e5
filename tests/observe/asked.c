/* asked.c: a program on libgc's interface that `neap heap PID` is asked of: keeps a list of 1,000
 * cells of 48 bytes in the static variable `list`, collects, prints "ready" and its number, and
 * waits for the end of its input. */
#include <gc.h>
#include <stdio.h>
#include <unistd.h>

struct cell {
    struct cell *next;
    char rest[40];
};
static struct cell *list;

int main(void)
{
    GC_INIT();
    for (int i = 0; i < 1000; i++) {
        struct cell *cell = GC_MALLOC(sizeof *cell);
        cell->next = list;
        list = cell;
    }
    GC_gcollect();
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    char end;
    return read(0, &end, 1) != 0 || list == NULL;
}
