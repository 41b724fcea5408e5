/// What a `fork` leaves of druntime and of this package: the child has one thread, and druntime
/// would go on to stop and scan those that it knew in the parent.
///
/// Invariant: the handlers are registered before the library's own, so they run inside of these:
/// the locks here come after the library's, as in a stop. On the thread that forks.
module neap.forks;

import core.sys.posix.pthread : pthread_atfork;
import core.thread : Thread;
import core.thread.threadbase : thread_detachInstance;
import neap.finalizers : forgetOtherThreads;
import neap.shared_lock;
import neap.versions : firstThread, forgetStartingThreads, initializeThreadLocks, nextThread,
    tryLockThreads, unlockThreads;

/// Who holds druntime's lock may be starting a thread, and waits for a lock of the library that
/// this thread holds by now: then the list is whole, and is left unlocked after so many looks, a
/// twentieth of a second in all. Longer: such a `fork` takes longer; shorter: who is in the middle
/// of a change of the list may not have had a processor.
private enum uint looks = 500;
private enum uint betweenLooksMicroseconds = 100;
private __gshared bool isLocked;

/// Called once, before the library starts.
void initializeForks() nothrow @nogc
{
    pthread_atfork(&before, &inParent, &inChild);
}

private extern (C) nothrow @nogc:

void before()
{
    import core.sys.posix.unistd : usleep;

    acquire();
    isLocked = tryLockThreads();
    for (uint look; !isLocked && look < looks; look++)
    {
        usleep(betweenLooksMicroseconds);
        isLocked = tryLockThreads();
    }
}

void inParent()
{
    if (isLocked)
        unlockThreads();
    release();
}

void inChild()
{
    // The locks are held under the number that the thread had in the parent.
    initializeThreadLocks();
    initializeLock();
    forgetOtherThreads();
    forgetStartingThreads();
    const own = Thread.getThis();
    auto thread = firstThread();
    while (thread !is null)
    {
        auto next = nextThread(thread);
        if (thread !is own)
            thread_detachInstance(thread);
        thread = next;
    }
}
