/* Requests whose number, sizes, kinds and threads are known: tests/stats/run.sh compares what is
   recorded. Ends as its argument says: in order, by a signal, as another program,
   or after a fork, also of a daemon that has closed all descriptors. */
#include <neap.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile sink;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* In each thread: 1000 requests of 24 bytes, 10 of 5000 without pointers. */
static void *work(void *unused)
{
    for (int i = 0; i < 1000; i++)
        sink = neap_alloc(24);
    for (int i = 0; i < 10; i++)
        sink = neap_alloc_leaf(5000);
    return unused;
}

static void requests(void)
{
    pthread_t threads[3];
    neap_layout layout = neap_layout_bitmap(4, (const uint64_t[]){1});
    if (layout == NEAP_NO_LAYOUT)
        fail("no layout");
    work(NULL);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            fail("pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 100; i++)
        sink = neap_alloc_typed(64, layout);
    sink = neap_alloc_leaf(1000001);
    sink = neap_alloc_aligned(100, 64, NEAP_LEAF);
    neap_free(neap_alloc_uncollectable(77));
    neap_collect();
    neap_collect();
}

static void has_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 500; i++)
            sink = neap_alloc(40);
        exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("the child failed");
}

int main(int count, char **arguments)
{
    const char *end = count > 1 ? arguments[1] : "exit";
    requests();
    if (strcmp(end, "fork") == 0) {
        has_child();
        sink = neap_alloc(48);
    } else if (strcmp(end, "crash") == 0) {
        /* Longer than the recorder waits between two writings. */
        usleep(1500 * 1000);
        raise(SIGKILL);
    } else if (strcmp(end, "close") == 0) {
        closefrom(3);
        FILE *own = fopen(arguments[2], "w");
        if (own == NULL || fputs("own", own) < 0 || fflush(own) != 0)
            fail("the program's own file");
    } else if (strcmp(end, "exec") == 0) {
        /* As for a crash. */
        usleep(1500 * 1000);
        execv(arguments[2], arguments + 2);
        fail("execv");
    } else if (strcmp(end, "daemon") == 0) {
        /* The recording is given up in the parent: longer than between two writings. */
        closefrom(3);
        usleep(1500 * 1000);
        has_child();
    }
    return 0;
}
