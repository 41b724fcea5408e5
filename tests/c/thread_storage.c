/* A program with more thread-local variables than the stack of one of the collector's threads would
   have room for beside its frames: these threads are there all the same. */
#include "check.h"
#include <dirent.h>

static __thread void *volatile variables[1 << 17];

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int main(void)
{
    void **object = neap_alloc(64);
    variables[0] = object;
    for (int round = 0; round < 3; round++) {
        collect();
        CHECK(neap_base(variables[0]) == object);
    }
    /* Enough for cycles to be begun by the collector's thread. */
    for (int index = 0; index < 100000; index++)
        *object = neap_alloc(1000);
    CHECK(threads() > 1);
    return finish();
}
