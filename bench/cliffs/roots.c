/* roots WHERE SIZE [RATE [SECONDS]]: SIZE bytes of pointers in `registered` memory (GC_add_roots)
 * or in one `array` of the heap, written once; of the first 64 KB RATE a second are replaced.
 *
 * What do cycles make of memory that nobody writes any more? The check: every entry is right at
 * each turn and at the end. */
#include "../programs/large-roots.h"

enum { LIVELY = (64 << 10) / sizeof(struct entry *), SHARED = 64 };

int main(int argc, char **argv)
{
    bool array = argc > 1 && strcmp(argv[1], "array") == 0;
    if (!array && (argc < 2 || strcmp(argv[1], "registered") != 0)) {
        fprintf(stderr, "usage: %s registered|array SIZE [RATE [SECONDS]]\n", argv[0]);
        return 2;
    }
    size_t bytes = bench_bytes_argument(argc, argv, 2, "SIZE", 100 << 20);
    long rate = bench_argument(argc, argv, 3, "RATE", 50000, 0, 10000000);
    long seconds = bench_argument(argc, argv, 4, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    struct entry **table;
    if (array) {
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
    struct large_roots roots = {table, entries, entries < LIVELY ? entries : LIVELY, SHARED};
    return large_roots_run(array ? "roots array" : "roots registered", &roots, seconds, rate);
}
