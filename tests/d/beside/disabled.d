/// While collections are disabled none begins or ends: what only hidden pointers lead to meanwhile
/// is there when they are revealed, whatever another thread allocates. `GC.disable` may be called
/// in a destructor, and in the child of a `fork`. Prints what does not hold; ends with status 0 if
/// everything held. Run by `run.sh`.
module disabled;

import core.atomic : atomicLoad, atomicOp, atomicStore;
import core.memory : GC;
import core.stdc.stdio : fprintf, stderr;
import core.stdc.stdlib : calloc;
import core.sys.posix.sys.wait : waitpid;
import core.sys.posix.unistd : _exit, fork, usleep;
import core.thread : Thread;

enum objects = 400, rounds = 600;

/// What the collector does not see: where the pointers are, shown or hidden.
struct Places
{
    size_t** shown;
    size_t* hidden;
}

__gshared Places* places;
shared bool isOver;
shared int disabledInDestructors;

final class Disables
{
    ~this()
    {
        GC.disable();
        GC.enable();
        disabledInDestructors.atomicOp!"+="(1);
    }
}

pragma(inline, false) void allocate(int count)
{
    foreach (i; 0 .. count)
    {
        auto block = cast(ubyte*) GC.malloc(16 + i * 37 % 400);
        block[0 .. 16] = 0x5a;
        if (i % 50 == 0)
            new Disables;
    }
}

/// A cycle takes a while to mark it, and finds at its end where pointers are shown.
__gshared void** list;

pragma(inline, false) void makeList()
{
    places.shown = cast(size_t**) GC.calloc(objects * size_t.sizeof);
    list = cast(void**) places.shown;
    foreach (i; 0 .. 100_000)
    {
        auto cell = cast(void**) GC.malloc(32);
        cell[0] = list;
        list = cell;
    }
}

pragma(inline, false) void make()
{
    foreach (i; 0 .. objects)
    {
        auto object = cast(size_t*) GC.malloc(4 * size_t.sizeof);
        object[1] = ~cast(size_t) i;
        places.shown[i] = object;
    }
}

pragma(inline, false) void hide()
{
    foreach (i; 0 .. objects)
    {
        places.hidden[i] = ~cast(size_t) places.shown[i];
        places.shown[i] = null;
    }
}

pragma(inline, false) int reveal()
{
    int wrong;
    foreach (i; 0 .. objects)
    {
        auto object = cast(size_t*)~places.hidden[i];
        wrong += GC.sizeOf(object) == 0 || object[1] != ~cast(size_t) i;
        places.shown[i] = object;
    }
    return wrong;
}

pragma(inline, false) void clearStack()
{
    import core.volatile : volatileStore;

    ubyte[16384] room = void;
    foreach (ref cell; room)
        volatileStore(&cell, cast(ubyte) 0);
}

/// Whether a child that forks wherever the other thread's cycle is may disable collections.
bool childDisables()
{
    const child = fork();
    if (child == 0)
    {
        GC.disable();
        hide();
        allocate(2000);
        const wrong = reveal();
        GC.enable();
        GC.collect();
        _exit(wrong != 0);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main()
{
    places = cast(Places*) calloc(1, Places.sizeof);
    places.hidden = cast(size_t*) calloc(objects, size_t.sizeof);
    makeList();
    make();
    auto other = new Thread({
        while (!isOver.atomicLoad)
            allocate(500);
    }).start();
    int bad, children;
    foreach (round; 0 .. rounds)
    {
        GC.disable();
        hide();
        clearStack();
        usleep(2000);
        const wrong = reveal();
        bad += wrong != 0;
        if (wrong != 0)
            make();
        GC.enable();
        clearStack();
        usleep(100);
        if (round % 60 == 0)
            children += childDisables();
    }
    isOver.atomicStore(true);
    other.join();
    if (bad != 0)
        fprintf(stderr, "objects lost while collections were disabled, rounds of %d: %d\n", rounds, bad);
    if (children != rounds / 60)
        fprintf(stderr, "of %d children only %d went well\n", rounds / 60, children);
    if (disabledInDestructors.atomicLoad == 0)
        fprintf(stderr, "no destructor ran\n");
    return bad != 0 || children != rounds / 60 || disabledInDestructors.atomicLoad == 0;
}
