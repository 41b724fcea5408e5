/// What a program has of the package, by `dub test`: the collector that it chose runs, keeps what
/// is in use, and runs destructors of what is not.
module neap_under_d;

import core.memory : GC;
import core.thread : Thread;

extern (C) __gshared string[] rt_options = ["gcopt=gc:neap-precise"];

private class Node
{
    static shared int destroyed;
    Node next;
    int number;

    this(int number, Node next)
    {
        this.number = number;
        this.next = next;
    }

    ~this()
    {
        import core.atomic : atomicOp;

        atomicOp!"+="(destroyed, 1);
    }
}

/// A list of so many, which its caller keeps or not.
private Node list(int length)
{
    Node first;
    foreach_reverse (number; 0 .. length)
        first = new Node(number, first);
    return first;
}

unittest // neap is the collector: no other knows how many bytes it handed out to this block.
{
    import neap.c : neap_is_heap_address;

    assert(neap_is_heap_address(cast(void*) new Node(0, null)));
}

unittest // what is in use stays, on this thread's stack and on another's
{
    auto kept = list(10_000);
    auto other = new Thread({
        auto own = list(10_000);
        GC.collect();
        int number;
        for (auto node = own; node; node = node.next)
            assert(node.number == number++);
        assert(number == 10_000);
    });
    other.start();
    foreach (_; 0 .. 5)
        GC.collect();
    other.join();
    int number;
    for (auto node = kept; node; node = node.next)
        assert(node.number == number++);
    assert(number == 10_000);
}

unittest // destructors run
{
    import core.atomic : atomicLoad;

    const before = atomicLoad(Node.destroyed);
    new Thread({ list(10_000); }).start().join();
    GC.collect();
    // A stale word may keep some.
    assert(atomicLoad(Node.destroyed) - before > 9_000);
    assert(GC.profileStats().numCollections > 0);
}
