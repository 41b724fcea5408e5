/* What is preloaded under a D program that is built already (LD_PRELOAD, `neap run`): loads the
 * package for the druntime that the program has loaded, and nothing where it has none, as the
 * programs that a D program starts.
 *
 * Invariant: needs no library but libc, since it is loaded into every child too: a program with a
 * druntime of its own linked in does not bear a second one. Run by the loader before `main`.
 * LDC_RUNTIME and GDC_RUNTIME are the names of the libraries that the packages were linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Loads `package`, which lies beside this library, if `runtime` is loaded already. */
static void load_for(const char *runtime, const char *package)
{
    Dl_info own;
    char path[4096];
    if (!dlopen(runtime, RTLD_LAZY | RTLD_NOLOAD) || !dladdr((void *)load_for, &own))
        return;
    const char *end = strrchr(own.dli_fname, '/');
    int folder = end ? (int)(end - own.dli_fname) + 1 : 0;
    snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, package);
    if (!dlopen(path, RTLD_NOW))
        fprintf(stderr, "neap: %s: the program stays on its own collector\n", dlerror());
}

__attribute__((constructor)) static void load(void)
{
#ifdef LDC_RUNTIME
    load_for(LDC_RUNTIME, "libneapd-ldc.so");
#endif
#ifdef GDC_RUNTIME
    load_for(GDC_RUNTIME, "libneapd-gdc.so");
#endif
}
