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
#include "programs/processor.h"
#include "programs/tree_of_maps.h"

/* Times in nanoseconds, counted in 32 buckets for each power of two: percentiles are at most 3 %
   too high. */
enum { STEPS_LOG2 = 5, STEPS = 1 << STEPS_LOG2, BUCKETS = STEPS * 60 };

struct times {
    uint64_t counts[BUCKETS];
    uint64_t total, longest;
};

static struct tree tree;
static struct times operation_times, response_times;
/* An operation that takes longer is asked about; between them the counts are read now and then, so
   that what they say is recent. */
enum { SLOW_NS = 100000, LOOK_NS = 1000000 };

static void times_add(struct times *times, uint64_t nanoseconds)
{
    /* Shifted right by `power` a large time lies in [STEPS, 2 * STEPS): below 2 * STEPS each
       nanosecond has a bucket of its own. */
    unsigned power = nanoseconds < 2 * STEPS ? 0
        : 63 - STEPS_LOG2 - (unsigned)__builtin_clzll(nanoseconds);
    unsigned bucket = power * STEPS + (unsigned)(nanoseconds >> power);
    times->counts[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    times->total++;
    if (nanoseconds > times->longest)
        times->longest = nanoseconds;
}

/* The time in nanoseconds that a share of `fraction` of all operations did not exceed (the upper
   edge of its bucket). */
static uint64_t times_quantile(const struct times *times, double fraction)
{
    uint64_t wanted = (uint64_t)((double)times->total * fraction), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += times->counts[bucket];
        if (seen > wanted) {
            unsigned power = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
            uint64_t edge = (((uint64_t)(bucket - power * STEPS) + 1) << power) - 1;
            return edge < times->longest ? edge : times->longest;
        }
    }
    return times->longest;
}

static void times_print(const struct times *times, const char *name)
{
    printf(", \"%s_us\": {\"p50\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"max\": %.2f}", name,
        (double)times_quantile(times, 0.5) * 1e-3,
           (double)times_quantile(times, 0.99) * 1e-3, (double)times_quantile(times, 0.999) * 1e-3,
               (double)times->longest * 1e-3);
}

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

    uint64_t stops_before = bench_stop_count, longest_before = bench_stop_longest;
    bench_stop_longest = 0;
    uint64_t random = 0x5eed, wrong = 0, operations = 0;
    uint64_t slow = 0, hindered = 0, longest_unhindered = 0, looked = 0;
    struct processor_counts counts = processor_counts();
    uint64_t began = bench_nanoseconds(), end = began + (uint64_t)seconds * 1000000000u,
        now = began;
    double interval = 1e9 / (double)rate;
    while (now < end) {
        uint64_t due = began + (uint64_t)((double)operations * interval);
        if (now - looked > LOOK_NS) {
            looked = now;
            counts = processor_counts();
        }
        while (now < due && now < end)
            now = bench_nanoseconds();
        if (now >= end)
            break;
        uint64_t started = now;
        wrong += !tree_replace_one(&tree, &random);
        void **chain = NULL;
        for (long garbage = 0; garbage < 16; garbage++) {
            void **link = bench_gc_allocate(64);
            *link = chain;
            chain = link;
        }
        bench_keep(chain);
        now = bench_nanoseconds();
        operations++;
        times_add(&operation_times, now - started);
        times_add(&response_times, now - due);
        bool held_up = false;
        if (now - started > SLOW_NS) {
            struct processor_counts before = counts;
            counts = processor_counts();
            held_up = processor_was_taken(&before, &counts);
            slow++;
            hindered += held_up;
        }
        if (!held_up && now - started > longest_unhindered)
            longest_unhindered = now - started;
    }
    double elapsed = (double)(now - began) * 1e-9;
    double longest_stop_ms = (double)bench_stop_longest * 1e-6;
    uint64_t stops = bench_stop_count - stops_before;
    if (longest_before > bench_stop_longest)
        bench_stop_longest = longest_before;

    uint64_t right = tree_count_right(&tree);
    printf("{\"program\": \"pauses\", \"live_bytes\": %zu, \"keys\": %" PRIu64 ", \"right\": %" PRIu64 ", \"wrong\": %" PRIu64
           ", \"wanted_per_second\": %ld, \"operations_per_second\": %.0f",
           tree.bytes, tree.keys, right, wrong, rate, (double)operations / elapsed);
    times_print(&operation_times, "operation");
    times_print(&response_times, "response");
    printf(", \"slow_operations\": %" PRIu64 ", \"hindered_operations\": %" PRIu64 ", \"unhindered_us\": {\"max\": %.2f}", slow, hindered,
           (double)longest_unhindered * 1e-3);
    /* Stops of the measured time alone; the fields that all programs print count from the start. */
    if (bench_stops_known)
        printf(", \"measured_stops\": %" PRIu64 ", \"measured_longest_stop_ms\": %.3f", stops,
            longest_stop_ms);
    return bench_gc_finish(wrong == 0 && right == tree.keys && operations > 0);
}
