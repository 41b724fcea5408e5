/* driver FIRST COUNT [LENGTH]: sequences of LENGTH bytes (2,000) by chance, of COUNT seeds from
   FIRST on; driver FILE…: the sequences in files, as a fuzzer leaves them. A failure says which it
   was. With -DFUZZER a coverage guided fuzzer calls instead (libFuzzer's entry). */
#include "shadow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static int started;
    if (!started++)
        interface_start();
    run_sequence((struct input){bytes, bytes + length}, 0);
    return 0;
}
#else
enum { LONGEST = 1 << 20 };
static uint8_t bytes[LONGEST];

/* SplitMix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t value = *state += UINT64_C(0x9E3779B97F4A7C15);
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

static int run_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        return 2;
    }
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    fprintf(stderr, "fuzz: %s\n", name);
    run_sequence((struct input){bytes, bytes + length}, 0);
    return 0;
}

int main(int count, char **arguments)
{
    interface_start();
    char *end = NULL;
    uint64_t first = count < 3 ? 0 : strtoull(arguments[1], &end, 10);
    if (end == NULL || *end != '\0' || end == arguments[1]) {
        for (int at = 1; at < count; at++)
            if (run_file(arguments[at]) != 0)
                return 2;
        return count < 2 ? 2 : 0;
    }
    uint64_t seeds = strtoull(arguments[2], NULL, 10);
    size_t length = count > 3 ? strtoull(arguments[3], NULL, 10) : 2000;
    if (length > LONGEST)
        length = LONGEST;
    char end_of_line = isatty(2) ? '\r' : '\n';
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        uint64_t state = seed;
        for (size_t at = 0; at < length; at++)
            bytes[at] = (uint8_t)next(&state);
        /* Before it: after a crash it is too late. */
        fprintf(stderr, "fuzz: seed %llu%c", (unsigned long long)seed, end_of_line);
        run_sequence((struct input){bytes, bytes + length}, 0);
    }
    fprintf(stderr,
            "fuzz: %llu sequences of %zu bytes, %lu operations, %lu calls, %lu cycles, %lu forks\n",
            (unsigned long long)seeds, length, counts.operations,
            counts.operations + counts.allocations, interface_cycles(), counts.forks);
    return 0;
}
#endif
