/* The version of libgc whose interface this is: what Debian 12 has. Programs ask for it with #if;
   GC_get_version says the same at run time. What later versions added is here all the same. */
#ifndef GC_VERSION_H
#define GC_VERSION_H

#define GC_VERSION_MAJOR 8
#define GC_VERSION_MINOR 2
#define GC_VERSION_MICRO 2

/* Names of the same that older programs look for. */
#define GC_TMP_VERSION_MAJOR GC_VERSION_MAJOR
#define GC_TMP_VERSION_MINOR GC_VERSION_MINOR
#define GC_TMP_VERSION_MICRO GC_VERSION_MICRO

#endif
