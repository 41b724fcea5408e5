/* A library that loader.c opens: its constructor and destructor do what the program says, with the
   loader's locks held. */
#include <stddef.h>
extern void (*in_constructor)(void) __attribute__((weak));
static __thread void *local[10];

void **loader_plugin_local(void)
{
    return local;
}

__attribute__((constructor)) static void begin(void)
{
    if (&in_constructor != NULL && in_constructor != NULL)
        in_constructor();
}
