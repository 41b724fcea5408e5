/// Registers the collector with druntime before `main`: `--DRT-gcopt=gc:neap`, and
/// `gc:neap-precise` for layouts from type information.
///
/// Invariant: a program that does not choose it pays nothing; the library starts when druntime
/// makes the collector. The linker is told to keep this file by the name of its constructor.
module neap.register;

import core.gc.config : config;
import core.gc.gcinterface : GC;
import core.gc.registry : registerGCFactory;
import core.lifetime : emplace;
import core.stdc.stdio : fflush, fprintf, stderr;
import core.stdc.stdlib : _Exit, getenv, malloc;
import core.stdc.string : strlen;
import neap.attributes;
import neap.c;
import neap.forks;
import neap.layouts;
import neap.plugin;
import neap.roots;
import neap.shared_lock;
import neap.world;

/// Run by the C runtime at start-up. NEAPD_GC chooses for programs that are built already (`neap
/// run` sets it); what the program itself or its command line says overrules it.
extern (C) pragma(crt_constructor) void neap_d_register() nothrow @nogc
{
    registerGCFactory("neap", &conservative);
    registerGCFactory("neap-precise", &precise);
    if (auto chosen = getenv("NEAPD_GC"))
        config.gc = cast(string) chosen[0 .. strlen(chosen)];
}

private GC conservative()
{
    return create(false);
}

private GC precise()
{
    return create(true);
}

/// What the library warns of is that memory was refused: the program has an OutOfMemoryError for
/// that, which it may catch.
private extern (C) void ignore(const(char)*, size_t, void*) nothrow @nogc
{
}

private GC create(bool isPrecise)
{
    initializeLock();
    initializeRoots();
    initializeForks();
    // Each stop asks every thread by a signal and reads the static data of all of D's libraries.
    if (getenv("NEAP_BUSY_TRIGGER") is null)
        neap_option_set("busy_trigger", "40MiB");
    // D's runtime leaves room behind the arrays that it makes.
    if (getenv("NEAP_PAST_END") is null)
        neap_option_set("past_end", "no");
    neap_init();
    neap_finalizers_set_automatic(0);
    neap_set_warning_callback(&ignore, null);
    auto memory = malloc(__traits(classInstanceSize, NeapGC));
    if (memory is null || !initializeAttributes() || !initializeLayouts() || !initializeWorld())
    {
        fprintf(stderr,
            "neap: the collector cannot start: no memory, or it has another host in this process; choose another with --DRT-gcopt=gc:conservative\n");
        // Not by exit: what runs there may ask for the collector that is just being made, and waits
        // for ever.
        fflush(null);
        _Exit(1);
    }
    return emplace!NeapGC(memory[0 .. __traits(classInstanceSize, NeapGC)], isPrecise);
}
