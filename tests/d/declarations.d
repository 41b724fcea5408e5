/// What the D package declares of neap.h; has to print the same as `declarations.c`.
module declarations;

import core.stdc.stdio : printf;
import neap.c;

void main()
{
    printf("object info %zu %zu %zu %zu\n", ObjectInfo.sizeof, ObjectInfo.bytes.offsetof,
        ObjectInfo.kind.offsetof,
        ObjectInfo.layout.offsetof);
    printf("statistics %zu %zu %zu\n", Statistics.cycles.offsetof, Statistics.pauseTotalNs.offsetof,
        Statistics.assistTotalNs.offsetof);
    printf("world %zu %zu %zu\n", World.sizeof, World.roots.offsetof, World.environment.offsetof);
    printf("kinds %d %d\n", Kind.leaf, Kind.uncollectableLeaf);
    printf("events %d %d %d %d\n", Event.markEnd, Event.beforeResume, Event.resumed,
        Event.cycleEnd);
    printf("others %u %d\n", noLayout, orderNone);
}
