/* What follows a collection has happened when GC_gcollect returns, although the collector's thread
   drove it and has something to do in between: a line of its log goes to a pipe that is full. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>

enum { TURNS = 5, FULL = 4096 };
static int ends[2];

/* Makes room when the collector has waited for it for a while. */
static void *empty_slowly(void *none)
{
    static char room[FULL];
    usleep(50000);
    while (read(ends[0], room, sizeof room) > 0)
        ;
    return none;
}

static APART void live_and_garbage(void)
{
    static void *all[2000];
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        all[index] = memset(GC_malloc(5000), 1, 5000);
}

int main(int count, char **arguments)
{
    if (on_neap() && count == 1) {
        setenv("NEAP_LOG", "cycles", 1);
        setenv("NEAP_MAX_PAUSE", "0", 1); /* no cycle is the program's own */
        setenv("GC_DUMP_REGULARLY", "1", 1);
        execl("/proc/self/exe", arguments[0], "again", NULL);
        return 99;
    }
    setenv("GC_DUMP_REGULARLY", "1", 1);
    GC_INIT();
    live_and_garbage();
    for (int turn = 0; turn < TURNS; turn++) {
        static char room[FULL];
        pthread_t thread;
        CHECK_EQUAL(pipe(ends), 0);
        CHECK_EQUAL(fcntl(ends[1], F_SETPIPE_SZ, FULL), FULL);
        int saved = dup(2);
        CHECK_EQUAL(write(ends[1], room, FULL), FULL);
        CHECK_EQUAL(dup2(ends[1], 2), 2);
        close(ends[1]);
        CHECK_EQUAL(pthread_create(&thread, NULL, empty_slowly, NULL), 0);
        size_t told = strlen(capture(1, GC_gcollect));
        CHECK_EQUAL(dup2(saved, 2), 2);
        CHECK(told > 0);
        close(saved);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        close(ends[0]);
    }
    return finish();
}
