/* found.c: libc's functions for a program that is linked with -static.
 *
 * The library stands before some functions of libc's and looks libc's own up by name, by dlopen and
 * dlsym. In a program without a loader these find nothing: libneap-static.a has the two functions
 * below in their place. There the linker's --wrap gives libc's own the name __real_NAME and calls
 * of the program's the name __wrap_NAME, which the library's have. `wrapped.h` is made by
 * tools/static.sh, from what the shared library exports: WRAPPED are those names, RARE the ones
 * that have an object of their own in the archive, so that programs that do not call them are not
 * linked with the part of libc they are in.
 * Invariant: the answer for a name is always the same. Called by any thread, when the library
 * starts or by a function's first call. */
#include <string.h>
#include "wrapped.h"

/* Types do not matter: the addresses are all that is handed on. */
#define DECLARE(name) extern void __real_##name(void);
WRAPPED(DECLARE)
#define DECLARE_RARE(name) extern void *neap_real_##name __attribute__((weak));
RARE(DECLARE_RARE)

/* Looked up, and not stood before. Data is there if libc's archive has it in this program. */
extern void pthread_testcancel(void), sem_trywait(void *);
extern void _dl_find_object(void) __attribute__((weak));
extern const char _thread_db_pthread_tid[] __attribute__((weak));
extern const char _thread_db_sizeof_pthread[] __attribute__((weak));

void *neap_static_dlopen(const char *name, int mode);
void *neap_static_dlsym(void *library, const char *name);

/* There is no libc.so.6. */
void *neap_static_dlopen(const char *name, int mode)
{
    (void)name, (void)mode;
    return NULL;
}

void *neap_static_dlsym(void *library, const char *name)
{
    static const struct { const char *name; const void *address; } known[] = {
#define ENTRY(name) {#name, (const void *)__real_##name},
        WRAPPED(ENTRY)
        {"pthread_testcancel", (const void *)pthread_testcancel},
        {"sem_trywait", (const void *)sem_trywait},
        {"_dl_find_object", (const void *)_dl_find_object},
        {"_thread_db_pthread_tid", _thread_db_pthread_tid},
        {"_thread_db_sizeof_pthread", _thread_db_sizeof_pthread},
    };
    static const struct { const char *name; void *const *address; } rare[] = {
#define ENTRY_RARE(name) {#name, &neap_real_##name},
        RARE(ENTRY_RARE)
    };
    (void)library;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return (void *)known[i].address;
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++)
        if (rare[i].address && strcmp(rare[i].name, name) == 0)
            return *rare[i].address;
    return NULL;
}
