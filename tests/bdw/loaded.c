/* The library opened with dlopen and reached by dlsym, as Nim's programs do; and data of a library
   opened later as roots. Closed and opened again, as plug-ins bring it, with its threads at work.
   Not linked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GET(type, name, arguments) type(*name) arguments = (type(*) arguments)dlsym(library, #name)

int main(int count, char **arguments)
{
    void *library = dlopen("libgc.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library || count < 2) {
        fprintf(stderr, "%s\n", library ? "usage: loaded LIBRARY" : dlerror());
        return 1;
    }
    GET(void, GC_init, (void));
    GET(void *, GC_malloc, (size_t));
    GET(void, GC_gcollect, (void));
    GET(size_t, GC_get_gc_no, (void));
    GET(void *, GC_dlopen, (const char *, int));
    GC_init();
    void *plugin = GC_dlopen(arguments[1], RTLD_NOW);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    char ***slots = dlsym(plugin, "plugin_slots");
    for (int index = 0; index < 100; index++) {
        char *text = GC_malloc(40);
        snprintf(text, 40, "object %d", index);
        (*slots)[index] = text;
    }
    for (int round = 0; round < 200000; round++)
        memset(GC_malloc(40), 'z', 40);
    GC_gcollect();
    for (int round = 0; round < 200000; round++)
        memset(GC_malloc(40), 'z', 40);
    for (int index = 0; index < 100; index++) {
        char expected[40];
        snprintf(expected, sizeof expected, "object %d", index);
        if (strcmp((*slots)[index], expected) != 0) {
            fprintf(stderr, "slot %d holds '%.8s'\n", index, (*slots)[index]);
            return 1;
        }
    }
    int collects = GC_get_gc_no() != 0;
    for (int time = 0; time < 3; time++) {
        dlclose(library);
        usleep(100000);
        library = dlopen("libgc.so.1", RTLD_NOW | RTLD_GLOBAL);
        void *(*malloc_anew)(size_t) = (void *(*)(size_t))dlsym(library, "GC_malloc");
        for (int round = 0; round < 200000; round++)
            memset(malloc_anew(40), 'z', 40);
    }
    dlclose(library);
    usleep(100000);
    return !collects;
}
