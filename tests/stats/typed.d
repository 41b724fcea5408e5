/// What run.sh asks the recording of: 1,000 objects of four words, of which one may be a pointer,
/// by the type information that the compiler writes. Usage: typed --DRT-gcopt=gc:neap-precise.
module typed;

import core.stdc.stdio : puts;
import core.memory : GC;

enum objects = 1000;

struct Mixed
{
    size_t number;
    size_t other;
    Mixed* before;
    double fraction;
}

int main()
{
    Mixed* last;
    foreach (number; 0 .. objects)
        last = new Mixed(number, 0, last, 0.5);
    GC.collect();
    size_t found;
    for (auto at = last; at !is null; at = at.before)
        found += at.fraction == 0.5;
    if (found != objects)
        return 1;
    puts("ok");
    return 0;
}
