/* Prints what neap.h says of the numbers and sizes that the D package declares again;
   `declarations.d` prints what the package says. */
#include <neap.h>
#include <stdio.h>

int main(void)
{
    printf("object info %zu %zu %zu %zu\n", sizeof(neap_object_info),
        offsetof(neap_object_info, bytes), offsetof(neap_object_info, kind),
           offsetof(neap_object_info, layout));
    printf("statistics %zu %zu %zu\n", offsetof(neap_statistics, cycles),
        offsetof(neap_statistics, pause_total_ns),
           offsetof(neap_statistics, assist_total_ns));
    printf("world %zu %zu %zu\n", sizeof(neap_world), offsetof(neap_world, roots),
        offsetof(neap_world, environment));
    printf("kinds %d %d\n", NEAP_LEAF, NEAP_UNCOLLECTABLE_LEAF);
    printf("events %d %d %d %d\n", NEAP_EVENT_MARK_END, NEAP_EVENT_BEFORE_RESUME,
        NEAP_EVENT_RESUMED, NEAP_EVENT_CYCLE_END);
    printf("others %u %d\n", NEAP_NO_LAYOUT, NEAP_ORDER_NONE);
    return 0;
}
