/* small.c: a program on libgc's interface that allocates next to nothing: waits so many seconds as
 * the argument says, allocates 300 KB, says something, goes on for two seconds, ends with 7. */
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *kept[300];

int main(int count, char **arguments)
{
    sleep(count > 1 ? (unsigned)atoi(arguments[1]) : 0);
    GC_INIT();
    for (int i = 0; i < 300; i++)
        kept[i] = GC_MALLOC(1000);
    puts("small says this");
    fflush(stdout);
    sleep(2);
    return kept[299] == NULL ? 1 : 7;
}
