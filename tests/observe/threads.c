/* threads.c: a program on libgc's interface whose threads each allocate 50 KB and end, 2,000 of
 * them one after the other, every other one made by GC_pthread_create. Prints "ready" and its
 * number, and waits for the end of its input. */
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *work(void *nothing)
{
    for (int i = 0; i < 50; i++) {
        void *volatile object = GC_MALLOC(1000);
        (void)object;
    }
    return nothing;
}

int main(void)
{
    GC_INIT();
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        if ((i % 2 ? GC_pthread_create : pthread_create)(&thread, NULL, work, NULL) != 0)
            return 1;
        pthread_join(thread, NULL);
    }
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    char end;
    return read(0, &end, 1) != 0;
}
