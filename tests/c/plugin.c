/* A library that dlopen_roots.c and watched_roots.c open: its data, initialised and not, and its
   thread-local storage hold pointers. */
#include <stddef.h>
void *plugin_data[100] = {(void *)1};
void *plugin_zeroed[100];
/* For watched_roots.c. */
#ifndef SLOTS
#define SLOTS (1 << 15)
#endif
void *plugin_large[SLOTS];
static __thread void *plugin_local[100];
void **plugin_thread_local(void)
{
    return plugin_local;
}
