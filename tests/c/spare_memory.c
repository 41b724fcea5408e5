/* What a heap holds in any case is room: keeps 40 MB, drops it, and then allocates ten times as
   much with next to nothing alive, or as much in a second with "slow". So many cycles are to come
   then, and the heap is not to become larger; with "slow" most of it is to go back.
   Usage: spare_memory AT_LEAST AT_MOST [slow] */
#include "check.h"

enum { BYTES = 40 << 20 };

struct node {
    struct node *next;
    char rest[56];
};

static neap_statistics statistics(void)
{
    neap_statistics now;
    neap_statistics_read(&now, sizeof now);
    return now;
}

static struct node *node_of(struct node *next)
{
    struct node *node = neap_alloc(sizeof *node);
    CHECK(node != NULL);
    node->next = next;
    return node;
}

static __attribute__((noinline)) struct node *grow(void)
{
    struct node *list = NULL;
    for (int bytes = 0; bytes < BYTES; bytes += sizeof *list)
        list = node_of(list);
    return list;
}

int main(int count, char **arguments)
{
    CHECK(count >= 3);
    CHECK(grow()->next != NULL);
    for (int times = 0; times < 3; times++) {
        clear_stack();
        CHECK_EQUAL(neap_collect(), 1);
    }
    neap_statistics before = statistics();
    for (int bytes = 0; bytes < (count > 3 ? BYTES : BYTES * 10); bytes += sizeof(struct node)) {
        CHECK(node_of(NULL) != NULL);
        if (count > 3 && bytes % (256 << 10) == 0)
            usleep(5000);
    }
    neap_statistics after = statistics();
    long cycles = (long)(after.cycles - before.cycles);
    fprintf(stderr, "%ld cycles, %ld MB held before, %ld after\n", cycles,
        (long)(before.committed_bytes >> 20), (long)(after.committed_bytes >> 20));
    CHECK(cycles >= atol(arguments[1]) && cycles <= atol(arguments[2]));
    /* Of nothing held before, what may come is the room of 4 MiB and the blocks being filled. */
    uint64_t most = count > 3 ? BYTES / 2 : before.committed_bytes + (6 << 20);
    CHECK(after.committed_bytes <= most);
    return finish();
}
