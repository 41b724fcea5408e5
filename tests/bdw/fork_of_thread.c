/* The child of a fork that another thread than the first made: that thread's stack is its own, also
   where it stands in a handler on an alternate stack while another collects, and the first thread's
   is nobody's. */
#include "check.h"
#include "lists.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

enum { BYTES = 64 << 10 };

static sem_t in_handler, go_on;

static void waits(int number)
{
    (void)number;
    sem_post(&in_handler);
    while (sem_wait(&go_on) != 0)
        ;
}

static void *collects(void *unused)
{
    while (sem_wait(&in_handler) != 0)
        ;
    for (int turn = 0; turn < 3; turn++) {
        GC_gcollect();
        for (int index = 0; index < 20000; index++)
            memset(GC_malloc(sizeof(struct cell)), 0x55, sizeof(struct cell));
    }
    sem_post(&go_on);
    return unused;
}

static APART void in_child(void *bottom)
{
    pthread_t thread;
    struct GC_stack_base base;
    CHECK(GC_get_my_stackbottom(&base) != NULL);
    CHECK(base.mem_base == bottom);
    CHECK(GC_stackbottom == (char *)bottom);
    void *volatile kept = list(100);
    CHECK_EQUAL(pthread_create(&thread, NULL, collects, NULL), 0);
    raise(SIGUSR1);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(holds(kept, 100));
}

static void *forks(void *unused)
{
    struct GC_stack_base base;
    stack_t stack = {.ss_sp = malloc(BYTES), .ss_size = BYTES};
    CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
    CHECK(GC_get_my_stackbottom(&base) != NULL);
    CHECK((char *)base.mem_base != GC_stackbottom);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        in_child(base.mem_base);
        _exit(finish());
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQUAL(status, 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = waits, .sa_flags = SA_ONSTACK};
    GC_INIT();
    GC_allow_register_threads();
    CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
    sem_init(&in_handler, 0, 0);
    sem_init(&go_on, 0, 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, forks, NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    return finish();
}
