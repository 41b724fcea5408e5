/* mappings [SIZE [RATE [SECONDS]]]: SIZE bytes of linked nodes, some of which are replaced all the
 * time, and RATE operations a second, each of which maps 64 KB, writes to them, and unmaps them.
 *
 * The kernel has one lock for the list of a process's mappings. How long does a program wait for
 * it, as `malloc` of large memory, a new thread and a closed library do too, while a collector
 * looks through page tables? The check: the nodes of each list are those that were made last. */
#include "operations.h"

enum { LISTS = 1024, REPLACED = 16, MAPPED_BYTES = 64 << 10 };

struct node {
    struct node *next;
    uint64_t number, more[6];
};

static struct node *make(struct node *next, uint64_t number)
{
    struct node *node = bench_gc_allocate(sizeof *node);
    node->next = next;
    node->number = number;
    return node;
}

int main(int argc, char **argv)
{
    size_t bytes = bench_bytes_argument(argc, argv, 1, "SIZE", (size_t)1 << 30);
    long rate = bench_argument(argc, argv, 2, "RATE", 20000, 0, 10000000);
    long seconds = bench_argument(argc, argv, 3, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    size_t nodes = bytes / sizeof(struct node) / LISTS + 1;
    struct node **lists = bench_gc_allocate(LISTS * sizeof *lists);
    uint64_t numbers[LISTS], random = 0x5eed, wrong = 0;
    for (size_t number = 0; number < nodes; number++) {
        for (size_t list = 0; list < LISTS; list++) {
            lists[list] = make(lists[list], number);
            numbers[list] = number;
        }
    }
    struct operations *operations = operations_make(1);
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        for (int replaced = 0; replaced < REPLACED; replaced++) {
            size_t list = (size_t)(bench_random(&random) >> 11) % LISTS;
            wrong += lists[list]->number != numbers[list];
            lists[list] = make(lists[list]->next, ++numbers[list]);
        }
        char *mapped = mmap(
            NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        *mapped = 1;
        munmap(mapped, MAPPED_BYTES);
        operations_done(operations);
    }
    size_t left = 0;
    for (size_t list = 0; list < LISTS; list++)
        for (struct node *node = lists[list]; node != NULL; node = node->next)
            left++;
    wrong += left != nodes * LISTS;
    printf("{\"program\": \"mappings\", \"bytes\": %zu, \"wrong\": %" PRIu64, bytes, wrong);
    operations_print(operations, 1);
    bench_print_measured_stops();
    return bench_gc_finish(wrong == 0);
}
