/* program WAY: what refuse.c runs, on gc.h or (-DNEAP) on neap.h. plain: one thread; fork: children
   that go on with what their parent made; threads: sixteen. Says what it found; a status of 3 and a
   message where it gets no memory, thread or child. */
#ifdef NEAP
#include <neap.h>
#define ALLOCATE(bytes) neap_alloc(bytes)
#define RESIZE(object, bytes) neap_realloc(object, bytes)
#define COLLECT() neap_collect()
#define START() neap_init()
#else
#define GC_THREADS
#include <gc/gc.h>
#define ALLOCATE(bytes) GC_MALLOC(bytes)
#define RESIZE(object, bytes) GC_REALLOC(object, bytes)
#define COLLECT() GC_gcollect()
#define START() GC_INIT()
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 16, CHILDREN = 2 };

struct node {
    struct node *next;
    uintptr_t number, inverse;
    char *text;
};

static void refused(const char *what)
{
    char line[100];
    int length = snprintf(line, sizeof line, "program: %s\n", what);
    if (write(2, line, (size_t)length) != length)
        _exit(4);
    _exit(3);
}

static void *allocate(size_t bytes)
{
    void *object = ALLOCATE(bytes);
    if (object == NULL)
        refused("no memory");
    return object;
}

static struct node *list(struct node *head, uintptr_t count)
{
    for (uintptr_t i = 1; i <= count; i++) {
        struct node *node = allocate(sizeof *node);
        node->next = head;
        node->number = i;
        node->inverse = ~i;
        if (i % 16 == 0) {
            node->text = allocate(100 + i % 1000);
            node->text[99] = (char)i;
        }
        allocate(i % 700);
        head = node;
    }
    return head;
}

static uintptr_t sum(const struct node *head)
{
    uintptr_t sum = 0;
    for (; head != NULL; head = head->next) {
        if (head->number != ~head->inverse ||
            (head->text != NULL && head->text[99] != (char)head->number)) {
            printf("an object is not what it was\n");
            fflush(stdout);
            _exit(5);
        }
        sum += head->number;
    }
    return sum;
}

/* Lists, large objects that grow, garbage, collections. */
static uintptr_t work(uintptr_t count)
{
    struct node *head = list(NULL, count);
    char *large = allocate(100000);
    memset(large, 7, 100000);
    for (int i = 2; i < 6; i++) {
        large = RESIZE(large, (size_t)i * 100000);
        if (large == NULL)
            refused("no memory");
        COLLECT();
        head = list(head, count / 4);
    }
    for (int i = 0; i < 100000; i++)
        if (large[i] != 7)
            return 0;
    return sum(head);
}

static void *thread(void *result)
{
    *(uintptr_t *)result = work(600);
    return NULL;
}

static uintptr_t threads(void)
{
    static uintptr_t results[THREADS];
    pthread_t made[THREADS];
    uintptr_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&made[i], NULL, thread, &results[i]) != 0)
            refused("no thread");
    for (int i = 0; i < THREADS; i++) {
        if (pthread_join(made[i], NULL) != 0)
            refused("a thread cannot be joined");
        sum += results[i];
    }
    return sum;
}

static uintptr_t children(void)
{
    struct node *mine = list(NULL, 2000);
    uintptr_t before = sum(mine), made = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child < 0)
            refused("no child");
        if (child == 0)
            _exit(sum(mine) == before && work(1000) == work(1000) ? 0 : 5);
        made += work(1000);
        int status;
        if (waitpid(child, &status, 0) != child)
            refused("no child to wait for");
        if (status != 0)
            refused("a child failed");
    }
    return made + sum(mine) - before;
}

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "plain";
    START();
    uintptr_t result = strcmp(way, "threads") == 0 ? threads()
        : strcmp(way, "fork") == 0 ? children() : work(4000);
    printf("%s: %zu\n", way, (size_t)result);
    return 0;
}
