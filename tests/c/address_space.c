/* Little address space (RLIMIT_AS): the collector starts with less, allocates what there is, and
   then says no without losing anything; with too little it ends with a message that says what to
   do. A program that limits itself later has half of it for threads and malloc. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

static void limit(size_t mebibytes)
{
    struct rlimit limit = {mebibytes << 20, mebibytes << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        _exit(7);
}

static void fill_up(void)
{
    void **head = NULL;
    long count = 0;
    for (;; count++) {
        void **node = neap_alloc(4000);
        if (node == NULL)
            break;
        node[0] = head;
        node[1] = (void *)count;
        head = node;
        if (count > 200000)
            _exit(8);
    }
    CHECK_EQUAL(errno, ENOMEM);
    CHECK(count > 1000);
    CHECK(neap_collect());
    for (; head != NULL; head = head[0])
        if (head[1] != (void *)--count) {
            CHECK(!"contents");
            break;
        }
    CHECK_EQUAL(count, 0);
    clear_stack();
    CHECK(neap_collect());
    churn(4000, 10000);
}

static void *churns(void *unused)
{
    churn(4000, 100);
    return unused;
}

/* After the start, when much more is reserved. */
static void limit_self(int by_prlimit)
{
    pthread_t thread;
    void **kept = neap_alloc(sizeof *kept);
    *kept = neap_alloc(4000);
    struct rlimit few = {256 << 20, 256 << 20};
    if (by_prlimit)
        CHECK_EQUAL(prlimit(getpid(), RLIMIT_AS, &few, NULL), 0);
    else
        CHECK_EQUAL(setrlimit(RLIMIT_AS, &few), 0);
    void *room = malloc(32 << 20);
    CHECK(room != NULL);
    free(room);
    CHECK_EQUAL(pthread_create(&thread, NULL, churns, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    fill_up();
    CHECK(neap_usable_size(*kept) >= 4000);
}

/* The limit of a child that shares our memory is not ours. */
static void limit_child(void)
{
    struct rlimit few = {64 << 20, 64 << 20};
    pid_t child = vfork();
    if (child == 0)
        _exit(setrlimit(RLIMIT_AS, &few));
    CHECK(succeeded(child));
    CHECK(neap_alloc_leaf(200 << 20) != NULL);
}

static size_t data_bytes(void)
{
    char line[200];
    size_t kibibytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL)
        return 0;
    while (fgets(line, sizeof line, status))
        sscanf(line, "VmData: %zu", &kibibytes);
    fclose(status);
    return kibibytes << 10;
}

/* A request that is refused leaves the limit on data (RLIMIT_DATA) as it was. */
static void limit_data(void)
{
    CHECK(neap_alloc(100) != NULL);
    size_t now = data_bytes(), most = now + (512 << 20);
    CHECK(now > 0);
    struct rlimit few = {most, most};
    CHECK_EQUAL(setrlimit(RLIMIT_DATA, &few), 0);
    size_t large = (size_t)4 << 30;
    CHECK(neap_alloc_leaf(large) == NULL && !neap_expand(large));
    void *object = neap_alloc_leaf(64 << 20);
    CHECK(object != NULL && neap_realloc(object, large) == NULL);
    void *room = malloc(256 << 20);
    CHECK(room != NULL);
    free(room);
    CHECK(neap_alloc_leaf(64 << 20) != NULL);
}

int main(void)
{
    pid_t limited = fork();
    if (limited == 0) {
        alarm(60);
        limit_data();
        _exit(finish());
    }
    CHECK(succeeded(limited));
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            neap_init();
            if (way == 2)
                limit_child();
            else
                limit_self(way == 1);
            _exit(finish());
        }
        CHECK(succeeded(child));
    }
    for (size_t mebibytes = 128; mebibytes <= 512; mebibytes *= 2) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            limit(mebibytes);
            fill_up();
            _exit(finish());
        }
        CHECK(succeeded(child));
    }
    int ends[2], status;
    char text[1000];
    CHECK_EQUAL(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        dup2(ends[1], 2);
        setrlimit(RLIMIT_CORE, &none);
        limit(8);
        neap_init();
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    text[length > 0 ? length : 0] = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
        WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, "ulimit -v") != NULL);
    return finish();
}
