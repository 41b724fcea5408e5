/* Thread-local storage as the only reference: `__thread` variables of the first thread and of
   others, and pthread_setspecific; and a thread's stack while it waits. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static __thread void *variables[MANY];
static pthread_key_t key;
static sem_t ready, go;

/* A linked list of MANY watched objects, whose head is the only reference to them. */
static APART void *make_list(int first)
{
    void **head = NULL;
    for (int i = 0; i < MANY; i++) {
        void **node = neap_alloc(24);
        node[0] = head;
        watch(first + i, node);
        head = node;
    }
    return head;
}

static APART void fill(int first)
{
    for (int i = 0; i < MANY; i++) {
        variables[i] = neap_alloc(48);
        watch(first + i, variables[i]);
    }
}

static APART void set_key(int first)
{
    CHECK_EQUAL(pthread_setspecific(key, make_list(first)), 0);
}

static void *thread(void *argument)
{
    int first = *(int *)argument;
    fill(first);
    set_key(first + MANY);
    clear_stack();
    sem_post(&ready);
    sem_wait(&go);
    for (int i = 0; i < MANY; i++)
        CHECK(neap_base(variables[i]) == variables[i]);
    return NULL;
}

static void *holds_on_stack(void *argument)
{
    void *volatile list = make_list(*(int *)argument);
    clear_stack();
    sem_post(&ready);
    sem_wait(&go);
    CHECK(list != NULL);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    static int at[] = {2 * MANY, 4 * MANY};
    sem_init(&ready, 0, 0);
    sem_init(&go, 0, 0);
    CHECK_EQUAL(pthread_key_create(&key, NULL), 0);
    fill(0);
    set_key(MANY);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, thread, &at[0]), 0);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, holds_on_stack, &at[1]), 0);
    sem_wait(&ready);
    sem_wait(&ready);
    collect();
    churn(24, 20000);
    churn(48, 20000);
    for (int first = 0; first <= 4 * MANY; first += MANY)
        CHECK_ALL_ALIVE(first);
    sem_post(&go);
    sem_post(&go);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    /* The threads are gone, and what they held. */
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    CHECK_DEAD(2 * MANY);
    CHECK_DEAD(3 * MANY);
    CHECK_DEAD(4 * MANY);
    memset(variables, 0, sizeof variables);
    pthread_setspecific(key, NULL);
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);
    return finish();
}
