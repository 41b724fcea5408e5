/* Forks where they hurt: while other threads allocate and cycles run, from several threads at once,
   inside a finalizer, in chains, thousands of them in a row, and children that are killed in the
   middle; vfork, posix_spawn and daemon(3); a child that closes every descriptor. Handles, links
   and finalizers are valid in the child, which starts no thread and opens no file before it
   collects. Usage: fork_faults [CASE]; without a case all of them. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>

struct node {
    struct node *next;
    long value;
};

static struct node *kept;
static int stop;
enum { KEPT = 20000 };

static APART struct node *list(long length)
{
    struct node *head = NULL;
    for (long i = 0; i < length; i++) {
        struct node *node = neap_alloc(sizeof *node);
        node->next = head;
        node->value = i;
        head = node;
    }
    return head;
}

static int is_intact(const struct node *head, long length)
{
    for (long i = length - 1; i >= 0; i--, head = head->next)
        if (head == NULL || head->value != i)
            return 0;
    return head == NULL;
}

/* Allocates until told to stop: small and large objects, and a collection now and then. */
static void *allocates(void *argument)
{
    for (long turn = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); turn++) {
        struct node *head = list(300);
        char *large = neap_alloc(60000 + turn % 7 * 10000);
        large[59999] = 1;
        CHECK(is_intact(head, 300));
        if (turn % 50 == 0)
            CHECK(neap_collect());
    }
    return argument;
}

static pthread_t threads[4];

static void start(int count)
{
    stop = 0;
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocates, NULL), 0);
}

static void finish_threads(int count)
{
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

/* What a child does: looks, allocates, collects, looks again. */
static void live(void)
{
    alarm(60);
    CHECK(is_intact(kept, KEPT));
    struct node *own = list(3000);
    CHECK(neap_collect());
    CHECK(is_intact(own, 3000) && is_intact(kept, KEPT));
    own = list(3000);
    CHECK(is_intact(own, 3000));
}

static pid_t fork_and_live(void)
{
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        live();
        _exit(finish());
    }
    CHECK(child > 0);
    return child;
}

/* ---- The cases ---- */

/* Other threads are in every state there is when the process is copied, and a cycle is often under
   way. */
static void while_others_allocate(void)
{
    start(3);
    for (int turn = 0; turn < 60; turn++)
        CHECK(succeeded(fork_and_live()));
    finish_threads(3);
    CHECK(is_intact(kept, KEPT));
}

static void *forks(void *argument)
{
    for (int turn = 0; turn < 15; turn++)
        CHECK(succeeded(fork_and_live()));
    return argument;
}

static void from_several_threads(void)
{
    pthread_t forking[3];
    start(1);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&forking[i], NULL, forks, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(forking[i], NULL), 0);
    finish_threads(1);
}

/* Children die at any moment, also between their own cycle's steps: nobody else notices. */
static void killed_children(void)
{
    unsigned state = 12345;
    for (int turn = 0; turn < 60; turn++) {
        pid_t child = fork();
        if (child == 0) {
            for (;;)
                live();
        }
        state = state * 1664525 + 1013904223;
        usleep(state % 20000);
        if (turn % 10 == 0)
            CHECK(neap_collect());
        CHECK_EQUAL(kill(child, SIGKILL), 0);
        int status = 0;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(is_intact(kept, KEPT));
    }
    CHECK(neap_collect());
    CHECK(is_intact(kept, KEPT));
}

static void many_short_children(void)
{
    for (int turn = 0; turn < 10000; turn++) {
        pid_t child = fork();
        if (child == 0)
            _exit(kept->value == KEPT - 1 && neap_alloc(16) != NULL ? 0 : 1);
        if (!succeeded(child)) {
            CHECK(!"a short child ended well");
            return;
        }
    }
    CHECK(neap_collect());
    CHECK(is_intact(kept, KEPT));
}

static int finalized, forked_in_finalizer;

static void finalizer_that_forks(void *object, void *data)
{
    (void)object;
    (void)data;
    if (finalized++ > 0)
        return;
    pid_t child = fork_and_live();
    forked_in_finalizer = succeeded(child);
}

static APART void make_finalized(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(neap_finalizer_set(list(1), finalizer_that_forks, NULL, NEAP_ORDER_NONE),
            NEAP_OK);
}

static void in_a_finalizer(void)
{
    finalized = 0;
    make_finalized();
    collect();
    neap_finalizers_run();
    CHECK(finalized >= MANY - STRAY);
    CHECK(forked_in_finalizer);
}

static void generation(int depth)
{
    live();
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            generation(depth - 1);
            _exit(finish());
        }
        live();
        CHECK(succeeded(child));
    }
}

static void chains(void)
{
    generation(12);
    alarm(0);
}

static int threads_of_this_process(void)
{
    char line[200];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Threads: %d", &count) == 1)
            break;
    fclose(file);
    return count;
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* A child has none of its parent's descriptors of the collector, nor any thread but its own, until
   it collects; and then no more than its parent. */
static void children_are_lazy(void)
{
    CHECK(neap_collect());
    int parents = open_descriptors();
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        int bare = open_descriptors();
        CHECK_EQUAL(threads_of_this_process(), 1);
        CHECK(bare <= parents);
        if (getenv("NEAP_WATCH") != NULL && strcmp(getenv("NEAP_WATCH"), "pagemap") == 0)
            /* Two of the watch, and one by which the process is asked for its heap. */
            CHECK_EQUAL(bare, parents - 3);
        for (int i = 0; i < 100; i++)
            CHECK(neap_alloc(100) != NULL);
        CHECK_EQUAL(threads_of_this_process(), 1);
        CHECK_EQUAL(open_descriptors(), bare);
        live();
        CHECK(open_descriptors() <= parents);
        _exit(finish());
    }
    CHECK(succeeded(child));
}

/* As daemons do: everything closed, and the numbers used for files of the program's own. */
static void closed_descriptors(void)
{
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        live();
        for (int number = 3; number < 200; number++)
            close(number);
        int own[20];
        for (int i = 0; i < 20; i++)
            own[i] = memfd_create("own", 0);
        live();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            failures = 0;
            live();
            for (int i = 0; i < 20; i++)
                CHECK_EQUAL(write(own[i], "x", 1), 1);
            _exit(finish());
        }
        CHECK(succeeded(grandchild));
        for (int i = 0; i < 20; i++)
            CHECK_EQUAL(write(own[i], "x", 1), 1);
        live();
        _exit(finish());
    }
    CHECK(succeeded(child));
}

/* The same before the first cycle, when no thread of the collector has the watch's descriptor. */
static void closed_at_the_start(void)
{
    int own[2];
    char read_back[100] = {0};
    CHECK(neap_alloc(16) != NULL);
    CHECK_EQUAL(pipe(own), 0);
    CHECK_EQUAL(write(own[1], read_back, sizeof read_back), (ssize_t)sizeof read_back);
    for (int number = 3; number < 200; number++)
        if (number != own[0] && number != own[1] && fcntl(number, F_GETFD) >= 0)
            CHECK_EQUAL(dup2(own[0], number), number);
    kept = list(KEPT);
    live();
    usleep(300000);
    live();
    CHECK_EQUAL(read(own[0], read_back, sizeof read_back), (ssize_t)sizeof read_back);
}

static void spawned(void)
{
    extern char **environ;
    static char *const words[] = {"true", NULL};
    pid_t child;
    start(2);
    for (int turn = 0; turn < 20; turn++) {
        CHECK_EQUAL(posix_spawnp(&child, "true", NULL, NULL, words, environ), 0);
        CHECK(succeeded(child));
        child = vfork();
        if (child == 0) {
            execlp("true", "true", (char *)NULL);
            _exit(1);
        }
        CHECK(succeeded(child));
        if (turn % 5 == 0)
            CHECK_EQUAL(system("true"), 0);
        CHECK(neap_collect());
    }
    finish_threads(2);
    CHECK(is_intact(kept, KEPT));
}

/* The child of a child says through shared memory how it went: its parent is gone. */
static void daemonized(void)
{
    static volatile int *verdict;
    verdict = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        if (daemon(1, 1) != 0)
            _exit(1);
        live();
        *verdict = finish() == 0 ? 1 : 2;
        _exit(0);
    }
    CHECK(succeeded(child));
    for (int turn = 0; turn < 600 && *verdict == 0; turn++)
        usleep(50000);
    CHECK_EQUAL(*verdict, 1);
}

static int child_finalized;

static void counts(void *object, void *data)
{
    (void)object;
    (void)data;
    child_finalized++;
}

/* Kept until a child drops them: a cycle of the parent must not finalize them before. */
static struct node *counted[MANY];

static APART void make_counted(void)
{
    for (int i = 0; i < MANY; i++) {
        counted[i] = list(1);
        CHECK_EQUAL(neap_finalizer_set(counted[i], counts, NULL, NEAP_ORDER_NONE), NEAP_OK);
    }
}

/* What was registered before the fork works in the child: handles, links, finalizers, each for
   itself. */
static void registrations(void)
{
    struct node *target = list(5);
    neap_handle strong = neap_handle_alloc(target, NEAP_HANDLE_STRONG),
        weak = neap_handle_alloc(target, NEAP_HANDLE_WEAK);
    CHECK(strong != 0 && weak != 0);
    target = NULL;
    make_counted();
    for (int turn = 0; turn < 2; turn++) {
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            memset(counted, 0, sizeof counted);
            collect();
            neap_finalizers_run();
            CHECK(child_finalized >= MANY - STRAY);
            CHECK(is_intact(neap_handle_get(strong), 5));
            CHECK(neap_handle_get(weak) == neap_handle_get(strong));
            neap_handle more = neap_handle_alloc(list(2), NEAP_HANDLE_STRONG);
            collect();
            CHECK(is_intact(neap_handle_get(more), 2));
            CHECK_EQUAL(neap_handle_free(more), NEAP_OK);
            CHECK_EQUAL(neap_handle_free(strong), NEAP_OK);
            _exit(finish());
        }
        CHECK(succeeded(child));
    }
    CHECK(is_intact(neap_handle_get(strong), 5));
    CHECK_EQUAL(neap_handle_free(strong), NEAP_OK);
    CHECK_EQUAL(neap_handle_free(weak), NEAP_OK);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"while-others-allocate", while_others_allocate},
    {"from-several-threads", from_several_threads},
    {"killed-children", killed_children},
    {"many-short-children", many_short_children},
    {"in-a-finalizer", in_a_finalizer},
    {"chains", chains},
    {"children-are-lazy", children_are_lazy},
    {"closed-descriptors", closed_descriptors},
    {"closed-at-the-start", closed_at_the_start},
    {"spawned", spawned},
    {"daemonized", daemonized},
    {"registrations", registrations},
};

int main(int count, char **arguments)
{
    if (count < 2 || strcmp(arguments[1], "closed-at-the-start") != 0)
        kept = list(KEPT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count < 2 || strcmp(arguments[1], cases[i].name) == 0)
            cases[i].run();
    return finish();
}
