/* A library with thread-local storage is closed, and another one, with much more of it, gets its
   number: a thread that has used the first has its block still, which is read no further than there
   is memory. Arguments: the two libraries. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t touched, go;

static void *touches(void *library)
{
    char *(*touch)(void) = (char *(*)(void))dlsym(library, "touch");
    CHECK(touch() != NULL);
    sem_post(&touched);
    while (sem_wait(&go) != 0)
        ;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    CHECK_EQUAL(argc, 3);
    neap_init();
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library != NULL);
    CHECK_EQUAL(pthread_create(&thread, NULL, touches, library), 0);
    while (sem_wait(&touched) != 0)
        ;
    CHECK_EQUAL(dlclose(library), 0);
    CHECK(dlopen(argv[2], RTLD_NOW) != NULL);
    collect();
    sem_post(&go);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    collect();
    return finish();
}
