/* mark MILLIONS TURNS: marks a heap of MILLIONS million linked 48-byte objects in random order;
 * prints nanoseconds per object.
 *
 * The objects form one complete binary tree in which neighbours in the tree are nowhere near each
 * other in memory, so that marking is bound by memory latency, as in an old heap, but not serial,
 * as it would be for one long list. Collections are explicit and timed from outside: a first one
 * that is not counted (it pays for what building left undone), then TURNS more; nothing is
 * allocated between them. The check: all objects are still there with the contents they got. */
#include "bench_gc.h"
#include <sys/mman.h>

struct object {
    struct object *left, *right;
    uint64_t number;      /* position in the tree, which is also the check */
    uint64_t filler[3];   /* no pointers, but scanned all the same: nobody told the library */
};

static struct object *root;

/* Counts the objects below `object` whose number is right; the tree's depth is about 25, so
   recursion is cheap. */
static uint64_t count_right(const struct object *object, uint64_t number)
{
    if (object == NULL)
        return 0;
    return (object->number == number) + count_right(object->left, 2 * number + 1)
        + count_right(object->right, 2 * number + 2);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    uint64_t count = (uint64_t)bench_argument(argc, argv, 1, "MILLIONS", 20, 1, 1000) * 1000000u;
    long turns = bench_argument(argc, argv, 2, "TURNS", 5, 1, 99);
    bench_gc_start();

    /* The collector stays off while the only pointers to the objects are where it does not look. */
    GC_disable();
    size_t bytes = count * sizeof(struct object *);
    struct object **order = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
        -1, 0);
    if (order == MAP_FAILED) {
        perror("mark: mmap");
        return 1;
    }
    for (uint64_t i = 0; i < count; i++)
        order[i] = bench_gc_allocate(sizeof(struct object));
    uint64_t random = 0x5eed;
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t other = bench_random(&random) % (i + 1);
        struct object *object = order[i];
        order[i] = order[other];
        order[other] = object;
    }
    for (uint64_t i = 0; i < count; i++) {
        order[i]->number = i;
        order[i]->left = 2 * i + 1 < count ? order[2 * i + 1] : NULL;
        order[i]->right = 2 * i + 2 < count ? order[2 * i + 2] : NULL;
    }
    root = order[0];
    munmap(order, bytes);
    GC_enable();

    GC_gcollect();
    static double times[99];
    for (long turn = 0; turn < turns; turn++) {
        double began = bench_seconds();
        GC_gcollect();
        times[turn] = (bench_seconds() - began) * 1e9 / (double)count;
    }
    qsort(times, (size_t)turns, sizeof times[0], by_value);
    uint64_t right = count_right(root, 0);
    printf("{\"program\": \"mark\", \"objects\": %" PRIu64 ", \"right\": %" PRIu64 ", \"ns_per_object\": %.2f, \"fastest_ns_per_object\": %.2f",
           count, right, times[turns / 2], times[0]);
    return bench_gc_finish(right == count);
}
