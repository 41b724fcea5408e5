/// The part of neap.h that this package uses, word for word; `tests/d/declarations.c` checks
/// numbers and sizes against the header.
///
/// Invariant: what is declared `@nogc nothrow` neither throws nor calls D code, but for what says
/// that it does. Called by the other files of this package, from any thread.
module neap.c;

extern (C) nothrow:

/// Statuses: 0 is success.
alias Status = int;

/// Kinds of objects; numbers of `enum neap_kind`.
enum Kind : int
{
    conservative = 0,
    leaf = 1,
    uncollectable = 2,
    uncollectableLeaf = 3,
}

/// No layout.
enum uint noLayout = uint.max;

/// As `neap_object_info`.
struct ObjectInfo
{
    void* start;
    size_t bytes;
    int kind;
    uint layout;
}

/// As `neap_statistics`; later versions of the library know more fields.
struct Statistics
{
    ulong cycles;
    ulong minorCycles;
    ulong pauseCount;
    ulong pauseMaxNs;
    ulong pauseP99Ns;
    ulong pauseP50Ns;
    ulong pauseTotalNs;
    ulong peakBytes;
    ulong liveBytes;
    ulong committedBytes;
    ulong freeBytes;
    ulong metadataBytes;
    ulong allocatedBytes;
    ulong allocatedObjects;
    ulong allocatedSinceCycle;
    ulong freedSinceCycle;
    ulong assistTotalNs;
}

/// Steps of a cycle; numbers of `enum neap_event`.
enum Event : int
{
    cycleStart = 0,
    beforeStop = 1,
    stopped = 2,
    markStart = 3,
    markEnd = 4,
    beforeResume = 5,
    resumed = 6,
    cycleEnd = 7,
}

/// `NEAP_ORDER_NONE`.
enum int orderNone = 2;

/// As `neap_world`.
struct World
{
extern (C) nothrow:
    int function(void*) stop;
    void function(void*) resume;
    void function(RangeVisitor, void*, void*) roots;
    void function(void*) stopLate;
    int function(void*) isOwnThread;
    void* environment;
}

alias RangeVisitor = extern (C) void function(const(void)*, const(void)*, void*) nothrow @nogc;
alias Finalizer = extern (C) void function(void*, void*) nothrow;
alias EventCallback = extern (C) void function(int, void*) nothrow;
alias WarningCallback = extern (C) void function(const(char)*, size_t, void*) nothrow @nogc;
alias Function = extern (C) void* function(void*) nothrow;
alias Visitor = extern (C) void function(void*, size_t, int, void*) nothrow;

// An allocation can run a cycle and its callbacks, which are this package's own and neither throw
// nor allocate from D.
@nogc
{
    void neap_init();
    const(char)* neap_option_set(const(char)* name, const(char)* value);
    void* neap_alloc(size_t bytes);
    void* neap_alloc_leaf(size_t bytes);
    void* neap_alloc_typed(size_t bytes, uint layout);
    size_t neap_good_size(size_t bytes);
    size_t neap_resize_in_place(void* object, size_t bytes);
    Status neap_free(void* object);
    void* neap_base(const(void)* address);
    int neap_is_heap_address(const(void)* address);
    int neap_object_at(const(void)* address, ObjectInfo* info);
    int neap_is_marked(const(void)* address);
    uint neap_layout_leaf();
    uint neap_layout_prefix(size_t bytes);
    uint neap_layout_bitmap(size_t elementWords, const(ulong)* bits);
    uint neap_layout_labelled(uint layout, uint label);
    uint neap_layout_label(uint layout);
    int neap_thread_is_attached();
    void neap_set_static_roots(int on);
    Status neap_set_world(const(World)* world);
    int neap_world_may_stop();
    void neap_world_go_on(int stopped);
    int neap_collect();
    void neap_release_memory();
    int neap_expand(size_t bytes);
    void neap_set_automatic(int on);
    void neap_finish_collection();
    void neap_disable();
    void neap_hold_collections();
    void neap_release_collections();
    Status neap_finalizer_set(void* object, Finalizer finalizer, void* data, int order);
    int neap_finalizer_is_set(const(void)* object);
    void neap_finalizers_set_automatic(int on);
    size_t neap_finalizers_ready();
    size_t neap_statistics_read(Statistics* statistics, size_t bytes);
    Status neap_set_event_callback(EventCallback callback, void* environment);
    Status neap_set_warning_callback(WarningCallback callback, void* environment);
    void* neap_with_stopped_world(Function run, void* argument);
    void neap_for_each_object(Visitor visitor, void* environment);
}

/// Runs finalizers, which are this package's and only remember what they are called for.
size_t neap_finalizers_run() @nogc;
