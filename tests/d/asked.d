/// A program that `neap heap PID` is asked of: keeps a hundred objects by a variable, fifty by a
/// thread-local one of another thread, one by that thread's stack and one by a root of the
/// interface. Collects, prints "ready" and its number, and waits for the end of its input; with the
/// argument `busy` it allocates meanwhile. Fails if anything of it is gone then.
module asked;

import core.atomic;
import core.memory : GC;
import core.stdc.stdio : fflush, printf, stdout;
import core.sys.posix.unistd : getpid, read;
import core.thread;

class Kept
{
    Kept next;
    size_t[5] rest;
}

final class ByVariable : Kept {}
final class ByThread : Kept {}
final class ByStack : Kept {}
final class ByRoot : Kept {}

__gshared Kept list;
Kept own;
__gshared size_t hidden;
shared bool ready, over;

pragma(inline, false) Kept make(T)(size_t count)
{
    Kept first;
    foreach (i; 0 .. count)
    {
        auto one = new T;
        one.next = first;
        first = one;
    }
    return first;
}

size_t length(const(Kept) list)
{
    size_t count;
    for (const(Kept)* at = &list; *at !is null; at = &at.next)
        count++;
    return count;
}

__gshared bool holds;

void other()
{
    own = make!ByThread(50);
    Kept onStack = new ByStack;
    ready.atomicStore(true);
    while (!over.atomicLoad)
        Thread.sleep(dur!"msecs"(5));
    holds = length(own) == 50 && length(onStack) == 1;
}

pragma(inline, false) void makeRoot()
{
    auto one = new ByRoot;
    GC.addRoot(cast(void*) one);
    // The collector does not look for its complement.
    hidden = ~cast(size_t) cast(void*) one;
}

pragma(inline, false) void wipe()
{
    import core.volatile : volatileStore;

    ubyte[16384] room = void;
    foreach (ref cell; room)
        volatileStore(&cell, 0);
}

int main(string[] arguments)
{
    list = make!ByVariable(100);
    makeRoot();
    auto thread = new Thread(&other);
    thread.start();
    while (!ready.atomicLoad)
        Thread.yield();
    wipe();
    GC.collect();
    printf("ready %d\n", getpid());
    fflush(stdout);
    shared bool isRead;
    auto reader = new Thread({ char end; read(0, &end, 1); isRead.atomicStore(true); });
    reader.start();
    while (!isRead.atomicLoad)
        if (arguments.length > 1)
            cast(void) make!ByStack(1000);
        else
            Thread.sleep(dur!"msecs"(5));
    over.atomicStore(true);
    thread.join();
    reader.join();
    GC.collect();
    return holds && length(list) == 100 && length(cast(Kept) cast(void*) ~hidden) == 1 ? 0 : 1;
}
