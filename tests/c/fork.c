/* fork() at any moment in a program with several threads: parent and child go on allocating and
   collecting, the child with its one thread and with new ones; chains of children; a child that
   only execs or exits. */
#include "check.h"
#include <pthread.h>

struct node {
    struct node *next;
    long value;
};

static int stop;

static struct node *list(long length)
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

static void *allocates(void *argument)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        struct node *head = list(500);
        void *large = neap_alloc_leaf(50000);
        CHECK(is_intact(head, 500));
        CHECK(large != NULL && neap_free(large) == NEAP_OK);
        if ((uintptr_t)head % 512 == 0)
            neap_collect();
    }
    return argument;
}

static void *works(void *argument)
{
    struct node *head = list(5000);
    CHECK(neap_collect());
    CHECK(is_intact(head, 5000));
    return argument;
}

static void live(const struct node *kept, int depth)
{
    pthread_t thread;
    CHECK(is_intact(kept, 10000));
    works(NULL);
    CHECK_EQUAL(pthread_create(&thread, NULL, works, NULL), 0);
    works(NULL);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(is_intact(kept, 10000));
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0) {
            failures = 0; /* the parent's are told by the parent */
            live(kept, depth - 1);
            _exit(finish());
        }
        works(NULL);
        CHECK(succeeded(child));
    }
}

/* Waits until collections are let go. */
static void *sets_an_option(void *unused)
{
    CHECK(neap_option_set("growth", "1.5") == NULL);
    return unused;
}

/* The thread that forks holds collections off, for which another one waits: so it does in the
   child, until it lets them go. */
static void held_off(const struct node *kept)
{
    pthread_t waits;
    neap_hold_collections();
    CHECK_EQUAL(pthread_create(&waits, NULL, sets_an_option, NULL), 0);
    usleep(20000);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        alarm(60);
        neap_release_collections();
        live(kept, 0);
        _exit(finish());
    }
    neap_release_collections();
    CHECK(succeeded(child));
    CHECK_EQUAL(pthread_join(waits, NULL), 0);
}

int main(void)
{
    pthread_t threads[3];
    struct node *kept = list(10000);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocates, NULL), 0);
    for (int turn = 0; turn < 30; turn++) {
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            alarm(60);
            live(kept, turn % 10 == 0 ? 2 : 0);
            if (turn % 2 == 0)
                _exit(finish());
            exit(finish());
        }
        CHECK(is_intact(kept, 10000));
        CHECK(neap_collect());
        CHECK(succeeded(child));
    }
    held_off(kept);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK(is_intact(kept, 10000));
    return finish();
}
