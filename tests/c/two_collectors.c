/* A program on neap.h loads a library on libgc's interface, so that two collectors would be at work
   in one process, which stop each other's threads: the second one ends it with a message. One that
   is only loaded does no harm. */
#include "check.h"
#include <dlfcn.h>
#include <libgen.h>
#include <signal.h>

int main(void)
{
    char path[4096], said[4096] = "";
    int status, ends[2];
    Dl_info here;
    CHECK(dladdr((void *)neap_alloc, &here) != 0);
    snprintf(path, sizeof path, "%s/neap/libgc.so.1", dirname(strdup(here.dli_fname)));
    void *libgc = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    CHECK(libgc != NULL);
    void *(*gc_malloc)(size_t) = NULL;
    *(void **)&gc_malloc = libgc ? dlsym(libgc, "GC_malloc") : NULL;
    CHECK(gc_malloc != NULL);
    for (int turn = 0; turn < 1000000; turn++)
        memset(neap_alloc(64), 0x55, 64);
    CHECK_EQUAL(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        gc_malloc(64);
        _exit(0);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(read(ends[0], said, sizeof said - 1) > 0);
    CHECK(strstr(said, "another copy of the collector") != NULL);
    return finish();
}
