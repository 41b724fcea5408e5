/* pauses SIZE [RATE [SECONDS]]: what a program with SIZE bytes of small live objects notices of its
 * collector.
 *
 * After building its tree of maps one thread makes RATE operations a second for SECONDS seconds
 * (200,000 and 10 unless told). An operation looks a key up, checks and replaces its value, and
 * makes 1 KB of garbage in 16 objects. Two times are kept of each operation: `operation`, from its
 * start to its end, and `response`, from when it should have started: after a stop of 100 ms all
 * operations that were due meanwhile are late too, which a program that only looks at the first
 * time never sees. The thread spins until the next one is due and never sleeps. A slow operation
 * may be the machine's doing: a thread that has to give its processor up to another waits for its
 * turn. So the longest operation is also told without those in which that happened (`unhindered`),
 * by what the kernel counts for the thread: involuntary switches, and time spent ready and not
 * running. What the host of a virtual machine takes is in neither: compare with `still`. The check:
 * every value found is right, and so are all of them at the end. */
#include "cliffs/operations.h"
#include "programs/processor.h"
#include "programs/tree_of_maps.h"

static struct tree tree;
/* An operation that takes longer is asked about; between them the counts are read now and then, so
   that what they say is recent. */
enum { SLOW_NS = 100000, LOOK_NS = 1000000 };

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr,
            "usage: %s SIZE [RATE [SECONDS]]\nSIZE is a number of bytes such as 200M or 1G\n",
            argv[0]);
        return 2;
    }
    size_t bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 0);
    long rate = bench_argument(argc, argv, 2, "RATE", 200000, 1, 100000000);
    long seconds = bench_argument(argc, argv, 3, "SECONDS", 10, 1, 3600);
    bench_gc_start();
    tree_build(&tree, bytes);

    struct operations *operations = operations_make(1);
    uint64_t random = 0x5eed, wrong = 0;
    uint64_t slow = 0, hindered = 0, longest_unhindered = 0, looked = 0;
    struct processor_counts counts = processor_counts();
    bench_measure_stops();
    operations_begin(operations, rate, seconds, 0);
    while (operations_next(operations)) {
        wrong += !tree_replace_one(&tree, &random);
        bench_gc_garbage(16, 64);
        operations_done(operations);
        uint64_t took = operations_last(operations);
        bool held_up = false;
        if (took > SLOW_NS) {
            struct processor_counts before = counts;
            counts = processor_counts();
            held_up = processor_was_taken(&before, &counts);
            slow++;
            hindered += held_up;
        } else if (operations->now - looked > LOOK_NS) {
            looked = operations->now;
            counts = processor_counts();
        }
        if (!held_up && took > longest_unhindered)
            longest_unhindered = took;
    }
    printf("{\"program\": \"pauses\", \"live_bytes\": %zu, \"keys\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"wanted_per_second\": %ld",
        tree.bytes, tree.keys, wrong, rate);
    operations_print(operations, 1);
    printf(", \"slow_operations\": %" PRIu64 ", \"hindered_operations\": %" PRIu64 ", \"unhindered_us\": {\"max\": %.2f}", slow, hindered,
           (double)longest_unhindered * 1e-3);
    bench_print_measured_stops();
    uint64_t right = tree_count_right(&tree);
    printf(", \"right\": %" PRIu64, right);
    return bench_gc_finish(wrong == 0 && right == tree.keys && operations->count > 0);
}
