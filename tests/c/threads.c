/* Threads: each builds and checks trees while others collect; attach, detach and attachment by the
   first allocation; ends by return, pthread_exit and cancellation; thousands of detached threads in
   bounded memory. */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { DEPTH = 14, THREADS = 4 };

struct node {
    struct node *left, *right;
    long value;
};

static struct node *build(int depth, long value)
{
    struct node *node = neap_alloc(sizeof *node);
    node->value = value;
    if (depth > 0) {
        node->left = build(depth - 1, 2 * value);
        node->right = build(depth - 1, 2 * value + 1);
    }
    return node;
}

static int is_intact(const struct node *node, int depth, long value)
{
    if (node == NULL || node->value != value)
        return 0;
    return depth == 0 ? node->left == NULL && node->right == NULL
                      : is_intact(node->left, depth - 1, 2 * value) &&
                          is_intact(node->right, depth - 1, 2 * value + 1);
}

static void *build_and_check(void *argument)
{
    for (long turn = 0; turn < 8; turn++) {
        struct node *tree = build(DEPTH, 1), *small;
        for (long i = 0; i < 200; i++) {
            small = build(5, i);
            CHECK(is_intact(small, 5, i));
        }
        if (turn == 3)
            CHECK(neap_collect());
        CHECK(is_intact(tree, DEPTH, 1));
    }
    return argument;
}

static APART void many_threads(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        CHECK_EQUAL((i % 2 ? neap_pthread_create : pthread_create)(&threads[i], NULL,
            build_and_check, (void *)i), 0);
    build_and_check(NULL);
    for (long i = 0; i < THREADS; i++) {
        void *result = NULL;
        CHECK_EQUAL(pthread_join(threads[i], &result), 0);
        CHECK_EQUAL(result, i);
    }
}

/* An object is the argument and the result: nothing else points to it on its way. */
static void *passes_on(void *argument)
{
    CHECK(neap_thread_is_attached());
    struct node *got = argument;
    CHECK(is_intact(got, 3, 7));
    churn(24, 5000);
    CHECK(is_intact(got, 3, 7));
    if (got->value == 7)
        pthread_exit(build(4, 9));
    return NULL;
}

static APART void arguments_and_results(void)
{
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        void *result;
        CHECK_EQUAL(pthread_create(&thread, NULL, passes_on, build(3, 7)), 0);
        neap_collect();
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        CHECK(is_intact(result, 4, 9));
    }
}

static void *waits_for_ever(void *argument)
{
    struct node *node = build(3, 5);
    for (;;) {
        CHECK(is_intact(node, 3, 5));
        usleep(1000);
    }
    return argument;
}

static APART void cancelled(void)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *result;
        CHECK_EQUAL(pthread_create(&thread, NULL, waits_for_ever, NULL), 0);
        neap_collect();
        CHECK_EQUAL(pthread_cancel(thread), 0);
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        CHECK(result == PTHREAD_CANCELED);
    }
}

static void *detaches(void *argument)
{
    CHECK(neap_thread_is_attached());
    CHECK(!neap_thread_attach());
    CHECK(neap_thread_detach());
    CHECK(!neap_thread_detach());
    CHECK(!neap_thread_is_attached());
    CHECK(neap_thread_attach());
    CHECK(neap_thread_is_attached());
    CHECK(neap_thread_detach());
    /* The first allocation attaches again. */
    struct node *node = build(3, 3);
    CHECK(neap_thread_is_attached());
    neap_collect();
    CHECK(is_intact(node, 3, 3));
    return argument;
}

static int ended;

static void *is_short(void *argument)
{
    struct node *node = build(2, (long)argument);
    CHECK(is_intact(node, 2, (long)argument));
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
    if ((long)argument % 3 == 0)
        pthread_exit(NULL);
    return NULL;
}

static APART void thousands(int count)
{
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int before = __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        while (pthread_create(&thread, &detached, is_short, (void *)i) == EAGAIN)
            usleep(1000);
        while (i - (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) - before) > 16)
            usleep(50);
    }
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < before + count)
        usleep(100);
    pthread_attr_destroy(&detached);
}

static __thread int begins_one;
static int called_in_a_beginning;

static void notes(int event, void *environment)
{
    (void)event;
    (void)environment;
    if (begins_one)
        __atomic_add_fetch(&called_in_a_beginning, 1, __ATOMIC_RELAXED);
}

/* Who begins a thread may hold a lock that the program's callbacks take. Each time a cycle is due,
   and as the threads live on, the library needs fresh memory for what it keeps of them. */
static APART void nothing_is_called_in_a_beginning(void)
{
    enum { AT_ONCE = 200 };
    static pthread_t threads[AT_ONCE];
    CHECK_EQUAL(neap_set_event_callback(notes, NULL), NEAP_OK);
    for (long i = 0; i < AT_ONCE; i++) {
        CHECK(neap_alloc_leaf(16 << 20) != NULL);
        begins_one = 1;
        CHECK_EQUAL((i % 2 ? neap_pthread_create : pthread_create)(&threads[i], NULL, is_short,
            (void *)i), 0);
        begins_one = 0;
    }
    for (long i = 0; i < AT_ONCE; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_EQUAL(called_in_a_beginning, 0);
    CHECK_EQUAL(neap_set_event_callback(NULL, NULL), NEAP_OK);
}

int main(void)
{
    pthread_t thread;
    nothing_is_called_in_a_beginning();
    many_threads();
    arguments_and_results();
    cancelled();
    CHECK_EQUAL(pthread_create(&thread, NULL, detaches, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    thousands(500);
    neap_collect_and_release();
    size_t before = resident_bytes();
    thousands(4000);
    neap_collect_and_release();
    size_t after = resident_bytes();
    if (after > before + (8u << 20))
        fprintf(stderr, "resident: %zu KiB before, %zu KiB after 4000 threads\n", before >> 10,
            after >> 10);
    CHECK(after <= before + (8u << 20));
    return finish();
}
