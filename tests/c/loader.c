/* Threads are made while another thread holds a lock of the loader's, and is stopped with it:
   whoever makes one must not keep the stop waiting, or nobody goes on. Thread A opens libraries. It
   takes its time in `malloc`, where the loader calls it with the list of thread-local blocks
   locked, or in a library's constructor, with the list of libraries locked. Thread S stops the
   world again and again. The main thread makes a thread, which waits for that lock: one of the
   library's own, or one that libc makes for the program. Usage: loader PLUGIN CASE [TIMES]; each
   time is a process of its own, since the library makes its threads once. */
#include "check.h"
#include <aio.h>
#include <dlfcn.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <threads.h>
#include <time.h>

enum {
    LIMIT_SECONDS = 30,
    HELD_MS = 150,
    /* So many with thread-local storage, and the loader's list is too short. */
    COPIES = 80,
    /* What it asks for then: glibc's `struct dtv_slotinfo_list` with 62 elements. */
    LIST_BYTES = 16 + 62 * 16
};

static const char *plugin;
static volatile int holds, begun, over;
static __thread int opens;

void *__libc_malloc(size_t);

static void sleep_ms(int milliseconds)
{
    struct timespec left = {.tv_sec = milliseconds / 1000,
        .tv_nsec = milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left) == -1)
        ;
}

static void hold(void)
{
    if (opens && !holds) {
        holds = 1;
        while (!begun)
            sleep_ms(1);
        sleep_ms(HELD_MS);
    }
}

/* The loader calls the program's. */
void *malloc(size_t bytes)
{
    if (bytes == LIST_BYTES)
        hold();
    return __libc_malloc(bytes);
}

static void path_of_copy(char *path, size_t room,
    int copy) { snprintf(path, room, "%s.%d", plugin, copy); }

static void copy_plugin(void)
{
    static char bytes[1 << 20];
    FILE *from = fopen(plugin, "r");
    CHECK(from != NULL);
    size_t length = fread(bytes, 1, sizeof bytes, from);
    CHECK(length > 0 && length < sizeof bytes);
    fclose(from);
    for (int i = 0; i < COPIES; i++) {
        char path[4096];
        path_of_copy(path, sizeof path, i);
        FILE *to = fopen(path, "w");
        CHECK(to != NULL && fwrite(bytes, 1, length, to) == length);
        fclose(to);
    }
}

static int opens_many(void *unused)
{
    (void)unused;
    CHECK(neap_alloc(8) != NULL);
    opens = 1;
    for (int i = 0; i < COPIES; i++) {
        char path[4096];
        path_of_copy(path, sizeof path, i);
        CHECK(dlopen(path, RTLD_NOW) != NULL);
    }
    CHECK(holds);
    return 0;
}

void (*in_constructor)(void);

static int opens_one(void *unused)
{
    (void)unused;
    CHECK(neap_alloc(8) != NULL);
    opens = 1;
    in_constructor = hold;
    CHECK(dlopen(plugin, RTLD_NOW) != NULL);
    CHECK(holds);
    return 0;
}

static int stops(void *unused)
{
    (void)unused;
    CHECK(neap_alloc(8) != NULL);
    while (!holds)
        sleep_ms(1);
    while (!over) {
        CHECK(neap_collect());
        /* Others want the collector too. */
        sleep_ms(1);
    }
    return 0;
}

/* The first collection makes the collector's thread. */
static void collects(void)
{
    for (int i = 0; i < 10; i++)
        CHECK(neap_collect());
}

static void finalizes(void *object, void *unused)
{
    (void)object;
    (void)unused;
}

/* The first finalizer makes the threads that run them. */
static void registers_a_finalizer(void) { CHECK_EQUAL(neap_finalizer_set(neap_alloc(8), finalizes,
    NULL, 0), NEAP_OK); }

static void nothing(union sigval unused) { (void)unused; }

static struct sigevent by_thread(void)
{
    return (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = nothing};
}

static void makes_a_timer(void)
{
    struct sigevent event = by_thread();
    timer_t timer;
    CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQUAL(timer_delete(timer), 0);
}

static void asks_for_notes(void)
{
    char name[64];
    snprintf(name, sizeof name, "/neap-loader-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, NULL);
    CHECK(queue != (mqd_t)-1);
    mq_unlink(name);
    struct sigevent event = by_thread();
    CHECK_EQUAL(mq_notify(queue, &event), 0);
    mq_close(queue);
}

static void reads_beside(void)
{
    static char byte;
    int file = open("/dev/zero", O_RDONLY);
    struct aiocb request = {.aio_fildes = file, .aio_buf = &byte, .aio_nbytes = 1};
    CHECK_EQUAL(aio_read(&request), 0);
    const struct aiocb *all[] = {&request};
    while (aio_error(&request) == EINPROGRESS)
        aio_suspend(all, 1, NULL);
    CHECK_EQUAL(aio_return(&request), 1);
    close(file);
}

static void looks_names_up(void)
{
    struct gaicb request = {.ar_name = "127.0.0.1"}, *all[] = {&request};
    const struct gaicb *waited[] = {&request};
    CHECK_EQUAL(getaddrinfo_a(GAI_NOWAIT, all, 1, NULL), 0);
    while (gai_error(&request) == EAI_INPROGRESS)
        gai_suspend(waited, 1, NULL);
    CHECK_EQUAL(gai_error(&request), 0);
}

static const struct one_case {
    const char *name;
    thrd_start_t open;
    void (*make)(void);
    int collected; /* whether there was a collection before */
} cases[] = {
    {"constructor", opens_one, collects, 0},         {"collector", opens_many, collects, 0},
    {"finalizers", opens_many, registers_a_finalizer, 1}, {"timer", opens_many, makes_a_timer, 1},
    {"notes", opens_many, asks_for_notes, 1},        {"requests", opens_many, reads_beside, 1},
    {"names", opens_many, looks_names_up, 1},
};

static int once(const struct one_case *one)
{
    alarm(LIMIT_SECONDS);
    CHECK(neap_alloc(8) != NULL);
    if (one->collected) {
        CHECK(neap_collect());
        sleep_ms(20);
    }
    /* Not by pthread_create, which the library stands before: nothing has made a thread by it when
       the first one is made. */
    thrd_t opener, stopper;
    CHECK_EQUAL(thrd_create(&stopper, stops, NULL), thrd_success);
    CHECK_EQUAL(thrd_create(&opener, one->open, NULL), thrd_success);
    while (!holds)
        sleep_ms(1);
    begun = 1;
    if (one->collected)
        sleep_ms(10);
    one->make();
    over = 1;
    CHECK_EQUAL(thrd_join(stopper, NULL), thrd_success);
    CHECK_EQUAL(thrd_join(opener, NULL), thrd_success);
    return finish();
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    plugin = argv[1];
    int times = argc > 3 ? atoi(argv[3]) : 10;
    copy_plugin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[2], cases[i].name) != 0)
            continue;
        for (int time = 0; time < times; time++) {
            int status;
            pid_t child = fork();
            if (child == 0)
                _exit(once(&cases[i]));
            CHECK_EQUAL(waitpid(child, &status, 0), child);
            if (status != 0) {
                fprintf(stderr, "%s: time %d of %d ended with status %#x%s\n", argv[2], time + 1,
                    times, status,
                        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ", after 30 s" : "");
                CHECK(!"nobody waits for ever");
                break;
            }
        }
    }
    return finish();
}
