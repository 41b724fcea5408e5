/* A hardened heap (NEAP_HARDEN=1): what is freed is filled and handed out late, mistakes end the
   program or are told, and a program without any goes on as ever. Run by run.sh, a part in each
   process: `place` prints where the first object lies. */
#include "check.h"

#include <pthread.h>
#include <signal.h>

static int last_status;

static void note(int status, const char *text, void *environment)
{
    (void)text, (void)environment;
    last_status = status;
}

/* How a child ends that does this; what it says goes to `text`. */
static int ending(void (*mistake)(void), char *text, size_t room)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        dup2(ends[1], 2);
        mistake();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], text + length, room - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void write_beyond(void)
{
    volatile char *object = neap_alloc_leaf(100000);
    object[100000 / 4096 * 4096 + 4095] = 1;
    object[100000 / 4096 * 4096 + 4096] = 1;
}

static void write_beyond_moved(void)
{
    volatile char *object = neap_realloc(neap_alloc(100000), 10 << 20);
    object[(10 << 20) + 4096] = 1;
}

/* A cycle beside the program has begun to watch what lies there. */
static void write_beyond_watched(void)
{
    volatile char *object = neap_alloc(10 << 20);
    CHECK(neap_collect());
    object[(10 << 20) + 4096] = 1;
}

static void write_freed(size_t bytes, int others)
{
    volatile char *object = neap_alloc(bytes);
    CHECK_EQUAL(neap_free((void *)object), NEAP_OK);
    object[bytes / 2] = 1;
    for (int i = 0; i < others; i++)
        neap_free(neap_alloc(bytes));
    if (others == 0)
        neap_collect();
}

static void write_freed_small(void) { write_freed(48, 5000); }
static void write_freed_larger(void) { write_freed(20000, 300); }
static void write_freed_and_collect(void) { write_freed(1000, 0); }

static void mistakes(void)
{
    static char text[4000];
    void (*const beyond[])(void) = {write_beyond, write_beyond_moved, write_beyond_watched};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        int status = ending(beyond[i], text, sizeof text);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    void (*const freed[])(void) = {write_freed_small, write_freed_larger, write_freed_and_collect};
    const char *const words[] = {"byte 24 ", "byte 10000 ", "byte 500 "};
    for (size_t i = 0; i < sizeof freed / sizeof *freed; i++) {
        int status = ending(freed[i], text, sizeof text);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK(strstr(text, "after it had freed it") && strstr(text, words[i]));
    }
}

static void twice(void)
{
    CHECK_EQUAL(neap_set_misuse_callback(note, NULL), NEAP_OK);
    for (size_t bytes = 16; bytes < 200000; bytes = bytes * 3 / 2) {
        unsigned char *object = neap_alloc(bytes);
        CHECK_EQUAL(neap_free(object), NEAP_OK);
        if (bytes <= 32768)
            CHECK(object[0] == 0xdf && object[bytes - 1] == 0xdf);
        CHECK_EQUAL(neap_free(object), NEAP_ALREADY_FREE);
        CHECK_EQUAL(last_status, NEAP_ALREADY_FREE);
    }
    CHECK_EQUAL(neap_set_misuse_callback(NULL, NULL), NEAP_OK);
}

/* Links in objects that are freed; the objects they lead to die. */
static APART void free_with_links(void)
{
    for (int i = 0; i < MANY; i++) {
        void **object = neap_alloc(64);
        for (int word = 0; word < 8; word++) {
            object[word] = neap_hide(neap_alloc(32));
            int length = word % 2 ? NEAP_LINK_LONG : NEAP_LINK_SHORT;
            CHECK_EQUAL(neap_link_register(&object[word], neap_reveal(object[word]), length),
                NEAP_OK);
        }
        CHECK_EQUAL(neap_free(object), NEAP_OK);
    }
}

struct node { struct node *next; size_t bytes; unsigned char rest[]; };

/* Allocates, resizes, frees and drops objects of all sizes; each holds its own bytes. */
static void *churn_all_sizes(void *argument)
{
    enum { SLOTS = 200 };
    struct node **slots = neap_alloc(SLOTS * sizeof *slots);
    unsigned random = (unsigned)(uintptr_t)argument + 1;
    for (int turn = 0; turn < 20000; turn++) {
        random = random * 1664525 + 1013904223;
        struct node **slot = &slots[(random >> 8) % SLOTS], *node = *slot;
        unsigned what = random >> 28;
        size_t bytes = sizeof *node + (what == 0 ? random >> 12 & 0x1ffff : random >> 12 & 0x3ff);
        unsigned char mark = (unsigned char)((uintptr_t)slot >> 3);
        if (node != NULL) {
            CHECK(node->rest[0] == mark && node->rest[node->bytes - 1] == mark);
            if (what < 4)
                CHECK_EQUAL(neap_free(node), NEAP_OK);
            if (what < 8)
                node = NULL;
        }
        node = what < 8 ? neap_alloc(bytes + 1) : neap_realloc(node, bytes + 1);
        node->bytes = bytes + 1 - sizeof *node;
        memset(node->rest, mark, node->bytes);
        *slot = node;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "place") == 0) {
        printf("%p\n", neap_alloc(64));
        return 0;
    }
    mistakes();
    twice();
    free_with_links();
    collect();
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, churn_all_sizes, (void *)(i * 77)) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    collect();
    return finish();
}
