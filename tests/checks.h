/* Checks that say where they failed, for every test in C and C++ under tests/: what the tests of
   both interfaces share. */
#ifndef CHECKS_H
#define CHECKS_H
#include <stdio.h>

static int failures __attribute__((unused)), checks __attribute__((unused));

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);                                          \
        if (!(condition)) {                                                                        \
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                                    \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
        }                                                                                          \
    } while (0)

#define CHECK_EQUAL(left, right)                                                                   \
    do {                                                                                           \
        long long left_ = (long long)(left), right_ = (long long)(right);                          \
        __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);                                          \
        if (left_ != right_) {                                                                     \
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                                    \
            fprintf(stderr, "%s:%d: %s is %lld, expected %lld (%s)\n", __FILE__, __LINE__, #left, left_,     \
                    right_, #right);                                                               \
        }                                                                                          \
    } while (0)

#endif
