/* full: small objects until there is no memory, and nothing that could go. What a program gets is
   an error that it may catch, once (`caught`), or that ends it with a message. */
import core.exception : OutOfMemoryError;
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

int main(string[] arguments)
{
    if (arguments.length < 2)
        fill();
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
