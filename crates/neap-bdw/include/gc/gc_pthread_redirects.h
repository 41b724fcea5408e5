/* Functions of the system that programs with threads call by way of the collector: with GC_THREADS,
   pthread_create and its like become GC_pthread_create and its like. GC_NO_THREAD_REDIRECTS leaves
   the names alone; gc_threads.h includes it. */
#if defined(GC_H) && defined(GC_PTHREADS) && !defined(GC_PTHREAD_REDIRECTS_H)
#define GC_PTHREAD_REDIRECTS_H

#ifndef GC_PTHREAD_REDIRECTS_ONLY
#include <pthread.h>
#include <signal.h>
#ifndef GC_NO_DLOPEN
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef GC_SUSPEND_THREAD_ID
#define GC_SUSPEND_THREAD_ID pthread_t
#endif

#ifndef GC_PTHREAD_CREATE_CONST
#define GC_PTHREAD_CREATE_CONST const
#endif
GC_API int GC_pthread_create(pthread_t *thread, GC_PTHREAD_CREATE_CONST pthread_attr_t *attributes,
                             void *(*function)(void *), void *argument);
GC_API int GC_pthread_join(pthread_t thread, void **result);
GC_API int GC_pthread_detach(pthread_t thread);
GC_API GC_PTHREAD_EXIT_ATTRIBUTE void GC_pthread_exit(void *result);
#ifndef GC_NO_PTHREAD_CANCEL
GC_API int GC_pthread_cancel(pthread_t thread);
#endif
#ifndef GC_NO_PTHREAD_SIGMASK
GC_API int GC_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
#endif
#ifndef GC_NO_DLOPEN
GC_API void *GC_dlopen(const char *path, int mode);
#endif

#ifdef __cplusplus
}
#endif
#endif

#if !defined(GC_NO_THREAD_REDIRECTS) && !defined(GC_USE_LD_WRAP)
#undef pthread_create
#define pthread_create GC_pthread_create
#undef pthread_join
#define pthread_join GC_pthread_join
#undef pthread_detach
#define pthread_detach GC_pthread_detach
#undef pthread_exit
#define pthread_exit GC_pthread_exit
#ifndef GC_NO_PTHREAD_CANCEL
#undef pthread_cancel
#define pthread_cancel GC_pthread_cancel
#endif
#ifndef GC_NO_PTHREAD_SIGMASK
#undef pthread_sigmask
#define pthread_sigmask GC_pthread_sigmask
#endif
#ifndef GC_NO_DLOPEN
#undef dlopen
#define dlopen GC_dlopen
#endif
#endif

#endif
