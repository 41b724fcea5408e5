/* The page that other processes look at is there before a second thread is: it lies under a high
   number, for which the kernel makes room at once as long as there is one thread, and in 10 to 30
   milliseconds otherwise, in which no stop comes to an end. Threads that libc makes are known only
   when they are attached; their page is there before stops wait for them. Where libc comes first
   (`first_threads libc`, linked so) all are such, and there is room from the beginning. */
#include "check.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether the process has such a page open. */
static int has_page(void)
{
    DIR *files = opendir("/proc/self/fd");
    CHECK(files != NULL);
    int found = 0;
    for (struct dirent *file; (file = readdir(files)) != NULL;) {
        char name[64] = "";
        if (readlinkat(dirfd(files), file->d_name, name, sizeof name - 1) > 0)
            found |= strstr(name, "neap-live") != NULL;
    }
    closedir(files);
    return found;
}

/* How many open files the process has room for. */
static int room(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    char line[256];
    int files = 0;
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "FDSize: %d", &files);
    fclose(status);
    return files;
}

static void *at_its_beginning(void *attached)
{
    CHECK_EQUAL(neap_thread_is_attached(), attached != NULL);
    CHECK_EQUAL(has_page(), attached != NULL);
    CHECK(neap_alloc(16) != NULL);
    CHECK(has_page());
    return NULL;
}

typedef int make_thread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int join_thread(pthread_t, void **);

/* In a process of its own: a thread made by one of these. */
static void with(make_thread *make, join_thread *join, void *attached)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        CHECK(neap_alloc(16) != NULL && !has_page());
        CHECK_EQUAL(make(&thread, NULL, at_its_beginning, attached), 0);
        CHECK_EQUAL(join(thread, NULL), 0);
        _exit(finish());
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQUAL(status, 0);
}

int main(int argc, char **argv)
{
    int is_libcs = argc > 1 && strcmp(argv[1], "libc") == 0;
    CHECK_EQUAL(room() > 1000, is_libcs);
    with(pthread_create, pthread_join, is_libcs ? NULL : "attached");
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc != NULL);
    make_thread *make = (make_thread *)dlsym(libc, "pthread_create");
    CHECK(make != NULL && (make == pthread_create) == is_libcs);
    with(make, (join_thread *)dlsym(libc, "pthread_join"), NULL);
    return finish();
}
