/* pieces.c: the pieces of programs that docs/c-api.md and the README show, in one that runs: each
 * is used once, with what it needs around it. */
#include <fcntl.h>
#include <neap.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

struct node { struct node *next; long value; };

struct node *push(struct node *list, long value)
{
    struct node *node = neap_alloc(sizeof *node);    /* zeroed */
    node->next = list;
    node->value = value;
    return node;                                     /* freed when nothing points to it */
}

static long plain_stores(void)
{
    struct node *list = push(NULL, 1);
    struct node *node = neap_alloc(sizeof *node); /* zeroed; nothing to register */
    node->next = list;                            /* a plain store: no write barrier */
    list = node;                                  /* freed when nothing leads to it */
    return list->next->value;
}

static ucontext_t here, there;
static struct node *of_fiber;

static void in_fiber(void)
{
    of_fiber = push(NULL, 2);
    neap_stack_switch(NULL); /* before going back to the thread's own stack */
    swapcontext(&there, &here);
}

static long fiber(void)
{
    size_t bytes = 64 << 10;
    void *low = malloc(bytes);
    getcontext(&there);
    there.uc_stack.ss_sp = low;
    there.uc_stack.ss_size = bytes;
    makecontext(&there, in_fiber, 0);
    neap_stack *stack = neap_stack_create(low, bytes);   /* once for each */
    neap_stack_switch(stack);                            /* right before each switch: where we go */
    swapcontext(&here, &there);
    neap_stack_retire(stack);
    free(low);
    return of_fiber->value;
}

static void close_file(void *argument) { close((int)(intptr_t)argument); }

static void cleaner(int descriptor)
{
    void *stream = neap_alloc(16);
    neap_cleaner_add(stream, close_file, (void *)(intptr_t)descriptor);
}

struct thing { long number; };
struct cache { void *entry; };

static long link_of(struct cache *cache)
{
    struct thing *object = neap_alloc(sizeof *object);
    object->number = 3;
    cache->entry = neap_hide(object);
    neap_link_register(&cache->entry, object, NEAP_LINK_SHORT);
    struct thing *thing = neap_link_read(&cache->entry); /* null, or alive as long as you hold it */
    return thing->number + (object->number - 3);
}

struct page { long number; };

static long handle(struct page *object)
{
    neap_handle cache = neap_handle_alloc(object, NEAP_HANDLE_WEAK);
    /* … */
    struct page *page = neap_handle_get(cache);   /* alive, or null */
    /* … */
    neap_handle_free(cache);
    return page->number + (object->number - 4);
}

static long domain(struct page *object)
{
    neap_domain plugin = neap_domain_open();
    neap_handle handle = neap_handle_alloc_in(plugin, object, NEAP_HANDLE_STRONG);
    /* … */
    neap_domain_close(plugin, NULL);
    return object->number + 1 + (handle == 0);
}

struct queue { long length; };

static void *put(void *argument)
{
    struct queue *queue = argument;
    neap_monitor_enter(queue);
    queue->length = 6;
    neap_monitor_notify(queue, 0);
    neap_monitor_exit(queue);
    return NULL;
}

static long monitor(void)
{
    struct queue *queue = neap_alloc(sizeof *queue);
    pthread_t thread;
    if (pthread_create(&thread, NULL, put, queue) != 0)
        return 0;
    neap_monitor_enter(queue);
    while (queue->length == 0)
        neap_monitor_wait(queue);
    /* … */
    neap_monitor_exit(queue);
    pthread_join(thread, NULL);
    return queue->length;
}

int main(void)
{
    struct page *page = neap_alloc(sizeof *page);
    page->number = 4;
    struct cache *cache = neap_alloc(sizeof *cache);
    long stores = plain_stores(), switched = fiber(), linked = link_of(cache);
    long held = handle(page), together = domain(page), waited = monitor();
    printf("%ld %ld %ld %ld %ld %ld\n", stores, switched, linked, held, together, waited);

    enum { FILES = 100 };
    int files[FILES], left = 0;
    for (int i = 0; i < FILES; i++)
        cleaner(files[i] = dup(STDERR_FILENO));
    neap_collect(); /* only to see now what else happens in its own time */
    neap_finalizers_run();
    for (int i = 0; i < FILES; i++)
        left += fcntl(files[i], F_GETFD) != -1;
    printf("most files are closed: %s\n", left < FILES / 10 ? "yes" : "no");
}
