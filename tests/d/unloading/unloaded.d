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

    struct Part
    {
        int* counter;
        ~this()
        {
            if (counter !is null)
                ++*counter;
        }
    }

    /// An array of them.
    extern (C) void* makeParts(int* counter, size_t many)
    {
        auto parts = new Part[many];
        foreach (ref part; parts)
            part.counter = counter;
        return cast(void*) parts.ptr;
    }
}
else
{
    import core.memory : GC;
    import core.runtime : Runtime;
    import core.stdc.stdio : fprintf, stderr;
    import core.sys.posix.dlfcn : dlsym;

    enum many = 500, parts = 30 + 3000;
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
            // In a small block, and in pages of their own.
            auto makeParts = cast(void* function(int*, size_t)) dlsym(library, "makeParts");
            foreach (length; [30, 3000])
                guests ~= makeParts(&destroyed, length);
            GC.collect();
            const before = destroyed;
            Runtime.unloadLibrary(library);
            const after = destroyed;
            GC.collect();
            guests = null;
            GC.collect();
            if (before != 0 || after != many + parts || destroyed != after || ownDestroyed != 0)
            {
                fprintf(stderr,
                    "destroyed before unloading %d, while %d of %d, later %d; of the program's own %d\n", before,
                    after, many + parts, destroyed - after, ownDestroyed);
                return 1;
            }
        }
        return 0;
    }
}
