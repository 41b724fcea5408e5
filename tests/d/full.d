/* full: small objects until there is no memory, and nothing that could go. What a program gets is
   an error that it may catch, once (`caught`), or that ends it with a message. A block that is to
   be smaller stays where there is no memory to move it (`smaller`). */
import core.exception : OutOfMemoryError;
import core.memory : GC;
import core.stdc.stdio : puts;

final class Node
{
    Node next;
}

/* Kept beyond the error: there is no more memory when it is told of. */
__gshared Node list;

void fill()
{
    for (;;)
    {
        auto node = new Node;
        node.next = list;
        list = node;
    }
}

int shrinkFull()
{
    enum before = 2_000_000, after = 500_000;
    auto block = cast(ubyte*) GC.malloc(before, GC.BlkAttr.NO_SCAN);
    block[after - 1] = 42;
    try
        fill();
    catch (OutOfMemoryError)
    {
        const smaller = cast(ubyte*) GC.realloc(block, after);
        return smaller !is block || smaller[after - 1] != 42 || GC.sizeOf(block) < before;
    }
    return 1;
}

int main(string[] arguments)
{
    if (arguments.length < 2)
        fill();
    if (arguments[1] == "smaller")
        return shrinkFull();
    try
        fill();
    catch (OutOfMemoryError)
    {
        list = null;
        foreach (i; 0 .. 10_000)
            new Node;
        puts("caught");
        return 0;
    }
    return 1;
}
