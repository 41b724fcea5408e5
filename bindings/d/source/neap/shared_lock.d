/// The one lock of this package: over roots, attributes that were changed, objects that wait for
/// their destructor, changes of the table of layouts, and how often collections were disabled.
///
/// Invariant: whoever stops the world takes it before any thread is stopped, so with the world
/// stopped no other thread holds it, and what it protects can be read. So nobody who holds it
/// allocates, waits for a cycle or calls the program. Recursive: what takes it is built of what
/// does, and a look-up of attributes with the world stopped takes it again.
module neap.shared_lock;

import core.sys.posix.pthread;

nothrow @nogc:

private __gshared pthread_mutex_t mutex;

/// Called once, before anything else of this package.
void initializeLock()
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void acquire()
{
    pthread_mutex_lock(&mutex);
}

void release()
{
    pthread_mutex_unlock(&mutex);
}
