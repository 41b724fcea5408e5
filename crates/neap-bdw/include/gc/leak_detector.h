/* Finds leaks in a program that was written for malloc and free: included in each of its files, it
   has them use the collector. With GC_set_find_leak(1) or GC_FIND_LEAK, CHECK_LEAKS() reports what
   is out of reach and was not freed. */
#ifndef GC_LEAK_DETECTOR_H
#define GC_LEAK_DETECTOR_H

#ifndef GC_DEBUG
#define GC_DEBUG
#endif
#include "gc.h"

#ifndef GC_DONT_INCLUDE_STDLIB
#include <stdlib.h>
#include <string.h>
#endif

#undef malloc
#define malloc(bytes) GC_MALLOC(bytes)
#undef calloc
#define calloc(count, bytes) GC_MALLOC((count) * (bytes))
#undef realloc
#define realloc(object, bytes) GC_REALLOC(object, bytes)
#undef free
#define free(object) GC_FREE(object)
#undef strdup
#define strdup(text) GC_STRDUP(text)
#undef strndup
#define strndup(text, bytes) GC_STRNDUP(text, bytes)
#ifdef GC_REQUIRE_WCSDUP
#undef wcsdup
#define wcsdup(text) GC_WCSDUP(text)
#endif
#undef memalign
#define memalign(alignment, bytes) GC_memalign(alignment, bytes)
#undef posix_memalign
#define posix_memalign(place, alignment, bytes) GC_posix_memalign(place, alignment, bytes)

#ifndef CHECK_LEAKS
#define CHECK_LEAKS() GC_gcollect()
#endif

#endif
