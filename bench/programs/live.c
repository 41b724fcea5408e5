/* live SIZE SECONDS: holds SIZE bytes of small linked objects, then replaces some and makes garbage
 * as fast as it can; longest stop.
 *
 * It goes on for at least SECONDS seconds and until four collections have seen the whole heap (or
 * four times SECONDS have passed, with at least one), so that the longest stop is one over all of
 * it whatever the library's growth policy. The check: every lookup finds the right value, and so
 * does a walk over all keys at the end. */
#include "tree_of_maps.h"

enum { COLLECTIONS_WANTED = 4, BATCH = 1000 };

static struct tree tree;

int main(int argc, char **argv)
{
    size_t bytes = bench_bytes_argument(argc, argv, 1, "SIZE", 1u << 30);
    long seconds = bench_argument(argc, argv, 2, "SECONDS", 5, 1, 3600);
    bench_gc_start();
    double began = bench_seconds();
    tree_build(&tree, bytes);
    double built = bench_seconds();
    uint64_t first_collection = GC_get_gc_no(), random = 0x5eed, operations = 0, wrong = 0,
        seen = 0;
    double now = built;
    for (;;) {
        for (long i = 0; i < BATCH; i++) {
            wrong += !tree_replace_one(&tree, &random);
            for (long garbage = 0; garbage < 8; garbage++)
                bench_keep(bench_gc_allocate(64));
        }
        operations += BATCH;
        now = bench_seconds();
        seen = GC_get_gc_no() - first_collection;
        if (now - built >= (double)seconds &&
            (seen >= COLLECTIONS_WANTED || (seen > 0 && now - built >= 4.0 * (double)seconds)))
            break;
        if (now - built >= 60.0 * (double)seconds) {
            fprintf(stderr, "live: no collection in %.0f s of allocation\n", now - built);
            wrong++;
            break;
        }
    }
    uint64_t right = tree_count_right(&tree);
    printf("{\"program\": \"live\", \"live_bytes\": %zu, \"keys\": %" PRIu64 ", \"right\": %" PRIu64 ", \"wrong\": %" PRIu64
           ", \"build_seconds\": %.3f, \"operations_per_second\": %.0f, \"collections_when_built\": %" PRIu64,
           tree.bytes, tree.keys, right, wrong, built - began, (double)operations / (now - built),
               seen);
    return bench_gc_finish(wrong == 0 && right == tree.keys);
}
