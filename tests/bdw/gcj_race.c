/* GC_init_gcj_malloc in several threads at once makes its two kinds once. Each try is a process of
   its own. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 3, TRIES = 300 };
static int waiting;

static void *init(void *nothing)
{
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < THREADS)
        ;
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL);
    return nothing;
}

static int kinds_are_two(void)
{
    GC_INIT();
    unsigned before = GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, init, NULL), 0);
    for (int index = 0; index < THREADS; index++)
        pthread_join(threads[index], NULL);
    CHECK_EQUAL(GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1) - before, 3);
    return finish();
}

int main(void)
{
    for (int turn = 0; turn < TRIES && failures == 0; turn++) {
        pid_t child = fork();
        if (child == 0)
            _exit(kinds_are_two());
        int status = -1;
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
    return finish();
}
