/* A stop is planned by what lived lately. Here next to nothing does in cycle after cycle, and then
   all of what one of them finds, which takes ten milliseconds and more to mark: the stop ends
   early, and the cycle runs beside the program. With a high trigger; NEAP_LOG=cycles says which
   kinds of cycles there were. */
#include "check.h"

enum { BYTES = 32 << 20, TURNS = 20 };

struct node {
    struct node *next;
    char rest[56];
};

static struct node *volatile list;

static neap_statistics statistics(void)
{
    neap_statistics now;
    neap_statistics_read(&now, sizeof now);
    return now;
}

/* Allocates so much and keeps it, or not; how many nodes. */
static APART long allocate(long bytes, int keep)
{
    long count = 0;
    for (; bytes > 0; bytes -= sizeof(struct node), count++) {
        struct node *node = neap_alloc(sizeof *node);
        CHECK(node != NULL && node->next == NULL);
        if (keep) {
            node->next = list;
            list = node;
        }
    }
    return count;
}

int main(void)
{
    for (int turn = 0; turn < TURNS; turn++)
        allocate(BYTES, 0);
    CHECK_EQUAL(neap_collect(), 1);
    neap_statistics before = statistics();
    CHECK(before.cycles >= TURNS / 2);
    long kept = 0;
    for (int turn = 0; turn < 3; turn++)
        kept += allocate(BYTES, 1);
    neap_statistics after = statistics();
    CHECK(after.cycles > before.cycles);
    for (struct node *node = list; node != NULL; node = node->next)
        kept--;
    CHECK_EQUAL(kept, 0);
    return finish();
}
