/* Finalizers and cleaners that throw: the exception ends in the library, the others run, and it is
   told; a cleaner that keeps its own object alive is told with NEAP_CHECK. */
#include "check.h"
#include <exception>
#include <pthread.h>
#include <stdexcept>

static int done, uncaught;

static void throw_it(void *argument)
{
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
    if (argument == NULL)
        throw std::runtime_error("thrown by a cleaner");
    throw 7;
}

static void count(void *)
{
    if (std::uncaught_exceptions() != 0)
        __atomic_add_fetch(&uncaught, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
}

static APART void add()
{
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(40);
        CHECK_EQUAL(neap_cleaner_add(object, throw_it, i % 2 ? &done : NULL), NEAP_OK);
        CHECK_EQUAL(neap_cleaner_add(object, count, NULL), NEAP_OK);
    }
}

static void *kept;

/* Runs `function` in a child; gives how often `text` stands in what the child said. */
static int told(void (*function)(), const char *text)
{
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        function();
        _exit(failures != 0);
    }
    close(ends[1]);
    static char said[1 << 16];
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += got;
    said[length] = 0;
    close(ends[0]);
    int status = 1, times = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (const char *at = said; (at = strstr(at, text)) != NULL; at++)
        times++;
    if (times == 0)
        fprintf(stderr, "said: %s\n", said);
    return times;
}

static void throwing()
{
    add();
    collect();
    collect();
    CHECK(done >= 2 * MANY - 4 * STRAY && done <= 2 * MANY);
    CHECK_EQUAL(uncaught, 0);
}

static void selfish()
{
    for (int i = 0; i < 3; i++) {
        void **object = (void **)neap_alloc(32);
        *object = neap_alloc(16);
        /* The argument leads to the object, by way of another one. */
        void **between = (void **)neap_alloc(16);
        *between = object;
        CHECK_EQUAL(neap_cleaner_add(object, count, between), NEAP_OK);
        /* Not its own. */
        CHECK_EQUAL(neap_cleaner_add(neap_alloc(8), count, object), NEAP_OK);
    }
    for (int i = 0; i < 20; i++)
        collect();
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        setenv("NEAP_CHECK", "1", 1);
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    }
    kept = neap_alloc(8);
    CHECK_EQUAL(told(throwing, "an exception left the finalizer"), 10);
    CHECK_EQUAL(told(selfish, "throwing.cpp:"), 1);
    return finish();
}
