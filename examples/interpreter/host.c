/* host.c: the interpreter inside a program that makes its threads by itself. Each calls in, and
 * says so; what it holds between two calls is in a handle, since the host's memory is malloc's. */
#include "value.h"

#include <neap.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct request { const char *text; neap_handle answer; };

static void *wait_for_work(void *unused)
{
    usleep(1000);
    return unused;
}

/* A thread of the host's. */
static void *serve(void *argument)
{
    struct request *request = argument;
    neap_thread_attach(); /* it would be at its first allocation, too */
    const char *text = request->text;
    value expression, result = NOTHING;
    while (read_value(&text, &expression))
        result = eval(expression, NOTHING);
    request->answer = neap_handle_alloc((void *)result, NEAP_HANDLE_STRONG);
    neap_blocked(wait_for_work, NULL); /* no collection waits for it */
    neap_thread_detach();
    return NULL;
}

int main(void)
{
    values_begin(1);
    primitives_begin();
    struct request *request = malloc(sizeof *request);
    request->text = "(cons 1 (cons 2 (quote ())))";
    pthread_t thread;
    pthread_create(&thread, NULL, serve, request);
    pthread_join(thread, NULL);
    neap_collect();
    print((value)neap_handle_get(request->answer));
    putchar('\n');
    neap_handle_free(request->answer);
    free(request);
    return 0;
}
