/* bench.h: what every benchmark program shares: arguments, clock, and the one line of JSON it
 * prints.
 *
 * A program checks its own result and says so in `ok`; it exits 1 when the check fails, so a fast
 * wrong answer never counts. Invariant: exactly one line starting with '{' is printed, by the main
 * thread, after all other threads have ended. Used by every file in this directory and by pauses.c;
 * never includes gc.h, so that the mimalloc variants can use it too. */
#ifndef NEAP_BENCH_H
#define NEAP_BENCH_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Monotonic time in seconds. */
static inline double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Monotonic time in nanoseconds. */
static inline uint64_t bench_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Hides a pointer from the optimizer, so that an allocation nobody reads is still made and
   written. */
static inline void bench_keep(void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

/* Mixes all bits of a word (a bijection, so distinct inputs stay distinct). */
static inline uint64_t bench_mix(uint64_t word)
{
    word ^= word >> 32;
    word *= 0xd6e8feb86659fd93u;
    word ^= word >> 32;
    word *= 0xd6e8feb86659fd93u;
    word ^= word >> 32;
    return word;
}

/* A small fast pseudo-random sequence (xorshift64*); `state` must not be 0. */
static inline uint64_t bench_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* Argument `index` as a number in [low, high], or `fallback` when it was not given. */
static inline long bench_argument(int argc, char **argv, int index, const char *name, long fallback,
    long low, long high)
{
    if (index >= argc)
        return fallback;
    char *end;
    errno = 0;
    long value = strtol(argv[index], &end, 10);
    if (errno != 0 || end == argv[index] || *end != '\0' || value < low || value > high) {
        fprintf(stderr, "%s: %s must be a whole number from %ld to %ld, not '%s'\n", argv[0], name,
            low, high, argv[index]);
        exit(2);
    }
    return value;
}

/* Argument `index` as a number of bytes with an optional suffix K, M or G (powers of 1024). */
static inline size_t bench_bytes_argument(int argc, char **argv, int index, const char *name,
    size_t fallback)
{
    if (index >= argc)
        return fallback;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(argv[index], &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    const char *rest = shift != 0 ? end + 1 : end;
    if (errno != 0 || end == argv[index] || argv[index][0] == '-' || *rest != '\0' || value == 0 ||
        value > (SIZE_MAX >> 1) >> shift) {
        fprintf(stderr, "%s: %s must be a number of bytes such as 200M or 1G, not '%s'\n", argv[0],
            name, argv[index]);
        exit(2);
    }
    return (size_t)value << shift;
}

/* A line of `path` in KiB, or 0 when the kernel does not tell. */
static inline long bench_kib_of(const char *path, const char *key)
{
    /* A buffer of our own: stdio would allocate one in the middle of what is measured. */
    static _Thread_local char buffer[1024];
    long kib = 0;
    char line[256];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    setvbuf(file, buffer, _IOFBF, sizeof buffer);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtol(line + strlen(key), NULL, 10);
    fclose(file);
    return kib;
}

/* The same of /proc/self/status (`VmRSS:`, `VmHWM:`). */
static inline long bench_status_kib(const char *key)
{
    return bench_kib_of("/proc/self/status", key);
}

/* Processor time of all threads so far, in seconds. */
static inline double bench_processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
