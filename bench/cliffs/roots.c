/* roots WHERE SIZE [RATE [SECONDS]]: SIZE bytes of pointers in `registered` memory (GC_add_roots)
 * or in one `array` of the heap, written once; of the first 64 KB RATE a second are replaced.
 * `registering` is `registered`, and each operation also registers eight bytes more and takes them
 * out again; `loading` loads a library instead, and unloads it.
 *
 * What do cycles make of memory that nobody writes any more, and who waits while they read it? The
 * check: every entry is right at each turn and at the end. */
#include <dlfcn.h>

#include "../programs/large-roots.h"

enum { LIVELY = (64 << 10) / sizeof(struct entry *), SHARED = 64 };

static void register_a_word(void)
{
    static void *word;
    GC_add_roots(&word, &word + 1);
    GC_remove_roots(&word, &word + 1);
}

/* A small one of the C library's own, which nothing else uses. */
static void load_a_library(void)
{
    void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW);
    if (library == NULL || dlclose(library) != 0) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

static const struct where {
    const char *name, *program;
    void (*besides)(void);
} wheres[] = {
    {"registered", "roots registered", NULL},
    {"array", "roots array", NULL},
    {"registering", "roots registering", register_a_word},
    {"loading", "roots loading", load_a_library},
};

int main(int argc, char **argv)
{
    const struct where *where = NULL;
    for (size_t index = 0; index < sizeof wheres / sizeof *wheres && argc > 1; index++)
        where = strcmp(argv[1], wheres[index].name) == 0 ? &wheres[index] : where;
    if (where == NULL) {
        fprintf(stderr, "usage: %s registered|array|registering|loading SIZE [RATE [SECONDS]]\n",
            argv[0]);
        return 2;
    }
    size_t bytes = bench_bytes_argument(argc, argv, 2, "SIZE", 100 << 20);
    long rate = bench_argument(argc, argv, 3, "RATE", 50000, 0, 10000000);
    long seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    struct entry **table;
    if (strcmp(where->name, "array") == 0) {
        table = bench_gc_allocate(bytes);
    } else {
        table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (table == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        GC_add_roots(table, (char *)table + bytes);
    }
    size_t entries = bytes / sizeof *table;
    struct large_roots roots = {table, entries, entries < LIVELY ? entries : LIVELY, SHARED,
        where->besides};
    return large_roots_run(where->program, &roots, seconds, rate);
}
