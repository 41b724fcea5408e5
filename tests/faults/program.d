/* program: what refuse.c runs, in D: lists, arrays that grow and texts on one thread, checked at
   the end. D's runtime says itself where there is no memory. */
import core.memory : GC;
import core.stdc.stdio : printf;

final class Node
{
    Node next;
    size_t number;
    char[] text;
    this(Node next, size_t number)
    {
        this.next = next;
        this.number = number;
        if (number % 16 == 0)
        {
            text = new char[100 + number % 1000];
            text[] = cast(char)('a' + number % 26);
        }
    }
}

int main()
{
    Node list;
    size_t[] numbers;
    foreach (i; 0 .. 40_000)
    {
        list = new Node(i % 8000 == 0 ? null : list, i);
        numbers ~= i;
        if (i % 10_000 == 9_999)
            GC.collect();
    }
    size_t sum, letters;
    for (auto node = list; node !is null; node = node.next)
    {
        sum += node.number;
        foreach (letter; node.text)
        {
            if (letter != 'a' + node.number % 26)
                return 4;
            letters++;
        }
    }
    foreach (i, number; numbers)
        if (i != number)
            return 5;
    printf("%zu %zu %zu\n", sum, letters, numbers.length);
    return 0;
}
