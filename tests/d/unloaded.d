/// A library that is loaded and unloaded: built with -version=Library it is that library, else the
/// program that loads it. Objects whose destructors lie in the library are destroyed while it is
/// unloaded, though the program still holds them, and no collection calls its code afterwards. Ends
/// with status 0 if everything held. Usage: unloaded LIBRARY.
module unloaded;

version (Library)
{
    final class Guest
    {
        int* counter;
        ~this()
        {
            ++*counter;
        }
    }

    extern (C) void* makeGuest(int* counter)
    {
        auto guest = new Guest;
        guest.counter = counter;
        return cast(void*) guest;
    }
}
else
{
    import core.memory : GC;
    import core.runtime : Runtime;
    import core.stdc.stdio : fprintf, stderr;
    import core.sys.posix.dlfcn : dlsym;

    enum many = 500;
    __gshared int destroyed, ownDestroyed;
    __gshared void*[] guests;
    __gshared Own own;

    final class Own
    {
        ~this()
        {
            ownDestroyed++;
        }
    }

    int main(string[] arguments)
    {
        own = new Own;
        foreach (turn; 0 .. 3)
        {
            destroyed = 0;
            auto library = Runtime.loadLibrary(arguments[1]);
            auto make = cast(void* function(int*)) dlsym(library, "makeGuest");
            foreach (guest; 0 .. many)
                guests ~= make(&destroyed);
            GC.collect();
            const before = destroyed;
            Runtime.unloadLibrary(library);
            const after = destroyed;
            GC.collect();
            guests = null;
            GC.collect();
            if (before != 0 || after != many || destroyed != many || ownDestroyed != 0)
            {
                fprintf(stderr,
                    "destroyed before unloading %d, while %d of %d, later %d; of the program's own %d\n", before,
                    after, many, destroyed - after, ownDestroyed);
                return 1;
            }
        }
        return 0;
    }
}
