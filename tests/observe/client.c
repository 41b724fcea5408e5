/* client.c: what the tests of `neap top`, `metrics`, traces and snapshots look at: a program with a
 * known graph that allocates steadily until its input ends.
 *
 * The graph: a static list of 1,000 typed nodes of 24 bytes, each with a text of 100 bytes of its
 * own; and a ring of three objects that nothing points to, so that no view may show it. Collects,
 * and prints "ready". `client fork` does all this in a child of fork(), and prints the
 * child's number; `client snapshot FILE` writes a heap snapshot and ends. `client graph OLD NEW`
 * makes the graph, and a text of 200 bytes that a handle alone refers to, on a thread that has
 * ended, so that no stack has pointers of it; writes a snapshot, keeps ten texts of 1,000 bytes
 * more in the static array `more`, and writes another. `client idle` does nothing from
 * then on. */
#include <neap.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 1000, TEXT_BYTES = 100 };

struct node {
    struct node *next;
    char *text;
    size_t number;
};

static struct node *list;
static void *volatile newest;

static void make_graph(void)
{
    uint64_t pointers = 3;
    neap_layout layout = neap_layout_bitmap(3, &pointers);
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = neap_alloc_typed(sizeof *node, layout);
        node->text = neap_alloc_leaf(TEXT_BYTES);
        snprintf(node->text, TEXT_BYTES, "text %zu", i);
        node->number = i;
        node->next = list;
        list = node;
    }
}

/* Out of line, so that nothing of it stays on the stack. */
__attribute__((noinline)) static void make_garbage(void)
{
    void **first = neap_alloc(4096), **second = neap_alloc(4096), **third = neap_alloc(4096);
    first[0] = second;
    second[0] = third;
    third[0] = first;
}

__attribute__((noinline)) static void overwrite_stack(void)
{
    volatile char room[8192];
    memset((char *)room, 0, sizeof room);
}

enum { MORE = 10 };
static void *volatile more[MORE]; /* nobody reads it */
static neap_handle handle;

static void *make_graph_and_handle(void *unused)
{
    (void)unused;
    make_graph();
    handle = neap_handle_alloc(neap_alloc_leaf(200), NEAP_HANDLE_STRONG);
    return NULL;
}

static void *make_more(void *unused)
{
    (void)unused;
    for (int i = 0; i < MORE; i++)
        more[i] = neap_alloc_leaf(1000);
    return NULL;
}

/* On a thread of its own, then garbage, so that cycles run. */
static int snapshot_after(void *(*make)(void *), const char *path)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, make, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < 50000; i++)
        newest = neap_alloc(64);
    return neap_heap_snapshot(path);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "graph") == 0)
        return snapshot_after(make_graph_and_handle, argv[2]) != 0 ||
               snapshot_after(make_more, argv[3]) != 0;
    make_garbage();
    make_graph();
    overwrite_stack();
    const char *what = argc > 1 ? argv[1] : "";
    pid_t child = 0;
    if (strcmp(what, "fork") == 0 && (child = fork()) != 0) {
        waitpid(child, NULL, 0);
        return 0;
    }
    if (strcmp(what, "snapshot") == 0) {
        int error = neap_heap_snapshot(argv[2]);
        if (error != 0)
            fprintf(stderr, "no snapshot: %s\n", strerror(error));
        return error != 0;
    }
    int is_idle = strcmp(what, "idle") == 0;
    /* Who has not collected cannot be asked for its heap. */
    neap_collect();
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (is_idle) {
        char end;
        return read(0, &end, 1) != 0;
    }
    for (struct pollfd input = {0, POLLIN, 0}; poll(&input, 1, 1) == 0;)
        for (int i = 0; i < 2000; i++)
            newest = neap_alloc(64);
    for (struct node *node = list; node != NULL; node = node->next)
        if (strncmp(node->text, "text ", 5) != 0)
            return 1;
    return 0;
}
