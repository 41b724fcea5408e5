/// The world is druntime's: its threads stop by its own signal, and it says where their stacks and
/// thread-local storage are.
///
/// Invariant: a thread that is inside the library when druntime's signal reaches it goes on and
/// raises the signal again when it is out (`neap_world_may_stop`). Whoever stops the world takes
/// the lock of `shared_lock` first, then druntime's. Called by the library on the thread that
/// drives a stop; the signal handler on every thread that is stopped.
module neap.world;

import core.stdc.stdio : fprintf, stderr;
import core.sys.posix.pthread : pthread_kill, pthread_self;
import core.sys.posix.signal;
import core.thread : Thread, thread_suspendAll;
import core.thread.threadbase : ScanType, thread_resumeAll;
import neap.attributes;
import neap.c;
import neap.finalizers;
import neap.roots;
import neap.shared_lock;
import neap.versions : firstThread, letStrangersStop, scanThreads, strangersMayStop, tellMarks,
    thread_suspendHandler, waitForLastStopped;

/// Set over `collectNoStack`: what only stacks and thread-local storage hold counts as dead.
__gshared bool withoutStacks;

/// The signal whose handler is ours in place of druntime's; 0 until there is one.
private __gshared int suspendSignal;
/// Marking is complete in the stop that is under way.
private __gshared bool isMarked;
/// Druntime is about to end, and its threads with it. Under the lock.
private __gshared bool isOver;

/// Has the library stop the world through druntime. False if another host did so first.
bool initializeWorld() nothrow @nogc
{
    // What druntime names is what it always named: the data of D modules, not that of C libraries.
    neap_set_static_roots(0);
    letStrangersStop();
    const world = World(&stop, &resume, &roots, &stopLate, &isOwnThread, null);
    return neap_set_world(&world) == 0
        && neap_set_event_callback(&event, null) == 0;
}

/// No stop begins from now on.
void endWorld() nothrow @nogc
{
    acquire();
    isOver = true;
    release();
}

private extern (C) nothrow:

/// Druntime throws where it cannot stop a thread; nothing of that may reach the library's frames.
int stop(void*)
{
    acquire();
    if (isOver)
    {
        release();
        return 1;
    }
    try
    {
        if (suspendSignal == 0)
            standBeforeDruntime();
        thread_suspendAll();
        if (Thread.getThis() is null)
            waitForLastStopped();
        return 0;
    }
    catch (Throwable thrown)
    {
        tell(thrown);
        try
            thread_resumeAll();
        catch (Throwable)
        {
        }
        release();
        return 1;
    }
}

void tell(Throwable thrown)
{
    const message = thrown.message;
    fprintf(stderr, "neap: druntime: %.*s\n", cast(int) message.length, message.ptr);
}

void resume(void*)
{
    try
        thread_resumeAll();
    catch (Throwable thrown)
        tell(thrown);
    release();
}

void roots(RangeVisitor visit, void* visitor, void*)
{
    nameRoots(visit, visitor);
    nameScannedLeaves(visit, visitor);
    nameWaiting(visit, visitor);
    if (!withoutStacks)
        scanThreads((ScanType, low, high) { visit(low, high, visitor); });
}

/// The collector's own thread stops druntime's as well as any of these, as soon as there are any;
/// others that druntime does not know leave it to them.
int isOwnThread(void*)
{
    return Thread.getThis() !is null
        || (strangersMayStop && !isOver && firstThread() !is null && !neap_thread_is_attached());
}

void event(int step, void*)
{
    switch (step)
    {
    case Event.markEnd:
        isMarked = true;
        break;
    case Event.beforeResume:
        if (!isMarked)
            break;
        isMarked = false;
        forgetDead();
        tellMarks();
        break;
    case Event.cycleEnd:
        noteEnd();
        break;
    default:
        break;
    }
}

/// Druntime installs its handler when it starts its threads, and the program may have chosen the
/// signal.
void standBeforeDruntime() @nogc
{
    foreach (number; 1 .. 65)
    {
        sigaction_t action;
        if (sigaction(number, null, &action) != 0 || action.sa_handler !is &thread_suspendHandler)
            continue;
        suspendSignal = number;
        action.sa_handler = &suspended;
        sigaction(number, &action, null);
        return;
    }
}

void suspended(int number)
{
    const stopped = neap_world_may_stop();
    if (!stopped)
        return;
    thread_suspendHandler(number);
    neap_world_go_on(stopped);
}

void stopLate(void*)
{
    pthread_kill(pthread_self(), suspendSignal);
}
