/* A program that closes all descriptors it finds, as daemons do, again and again: the library opens
   its watch anew each time, and leaves no thread behind. */
#include "check.h"
#include <dirent.h>
#include <unistd.h>

enum { ROUNDS = 6, OBJECTS = 100000 };

static int threads(void)
{
    DIR *list = opendir("/proc/self/task");
    int count = 0;
    CHECK(list != NULL);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count - 2;
}

static void **kept;

static void fill_and_collect(void)
{
    for (int at = 0; at < OBJECTS; at++)
        kept[at] = neap_alloc(64);
    CHECK(neap_collect());
}

int main(void)
{
    neap_init();
    kept = neap_alloc(OBJECTS * sizeof *kept);
    fill_and_collect();
    int before = threads();
    for (int round = 0; round < ROUNDS; round++) {
        for (int file = 3; file < 100; file++)
            close(file);
        /* The first finds the watch closed. */
        fill_and_collect();
        fill_and_collect();
    }
    CHECK(threads() <= before + 1);
    return finish();
}
