/* static-data [SECONDS [RATE]]: a program with 64 MB of pointers in static data (.bss), of which it
 * replaces RATE a second.
 *
 * How long does it stand while they are read? The check: every entry is right at each turn and at
 * the end. */
#include "large-roots.h"

static struct entry *table[(64 << 20) / sizeof(struct entry *)];

int main(int argc, char **argv)
{
    long seconds = bench_argument(argc, argv, 1, "SECONDS", 5, 1, 3600);
    long rate = bench_argument(argc, argv, 2, "RATE", 50000, 1, 10000000);
    bench_gc_start();
    size_t entries = sizeof table / sizeof *table;
    struct large_roots roots = {table, entries, entries, 8, NULL};
    return large_roots_run("static-data", &roots, seconds, rate);
}
