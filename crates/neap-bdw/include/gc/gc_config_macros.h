/* What the compiler and the system are like, for the other headers; gc.h includes it. One platform
   is known, Linux with GCC or Clang. */
#ifndef GC_CONFIG_MACROS_H
#define GC_CONFIG_MACROS_H

#include <stddef.h>

/* A program with threads defines GC_THREADS, or one of the older names. */
#if defined(GC_LINUX_THREADS) || defined(LINUX_THREADS)
#ifndef GC_THREADS
#define GC_THREADS
#endif
#endif
#ifdef GC_THREADS
#ifndef GC_LINUX_THREADS
#define GC_LINUX_THREADS
#endif
#define GC_PTHREADS
#define GC_HAVE_PTHREAD_EXIT
#ifndef _REENTRANT
#define _REENTRANT 1
#endif
#endif

/* By which a program finds out that it is built with a collector. */
#define __GC

#ifndef GC_API
#define GC_API extern
#endif
#ifndef GC_CALL
#define GC_CALL
#endif
#ifndef GC_CALLBACK
#define GC_CALLBACK GC_CALL
#endif

#define GC_GNUC_PREREQ(major, minor) \
    (__GNUC__ > (major) || (__GNUC__ == (major) && __GNUC_MINOR__ >= (minor)))

/* A function for GC_set_oom_fn that hands out objects which others know makes the compiler's
   assumption about new memory wrong: such a program defines GC_OOM_FUNC_RETURNS_ALIAS. */
#ifdef GC_OOM_FUNC_RETURNS_ALIAS
#define GC_ATTR_MALLOC
#else
#define GC_ATTR_MALLOC __attribute__((__malloc__))
#endif
#define GC_ATTR_ALLOC_SIZE(argument) __attribute__((__alloc_size__(argument)))
#define GC_ATTR_CALLOC_SIZE(count, size) __attribute__((__alloc_size__(count, size)))
#define GC_ATTR_NONNULL(argument) __attribute__((__nonnull__(argument)))
#define GC_ATTR_CONST __attribute__((__const__))
#ifdef GC_BUILD
#define GC_ATTR_DEPRECATED
#else
#define GC_ATTR_DEPRECATED __attribute__((__deprecated__))
#endif
#define GC_PTHREAD_EXIT_ATTRIBUTE __attribute__((__noreturn__))

#ifdef __cplusplus
#if __cplusplus >= 201103L
#define GC_NOEXCEPT noexcept
#define GC_ATTR_EXPLICIT explicit
#else
#define GC_NOEXCEPT throw()
#define GC_ATTR_EXPLICIT
#endif
#if !defined(__cpp_exceptions) && !defined(__EXCEPTIONS) && !defined(GC_NEW_ABORTS_ON_OOM)
#define GC_NEW_ABORTS_ON_OOM
#endif
#endif

#endif
