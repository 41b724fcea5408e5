/* resident SECONDS: allocates and drops small objects (8 to 128 bytes) for SECONDS seconds; prints
 * how much memory was resident.
 *
 * At any time only the last 1,024 objects are alive, so whatever more is resident is the library's
 * doing. VmRSS is read 10 times a second (its highest value after the first second is the steady
 * state), VmHWM at the end. The check: each object that is still alive when its turn to be replaced
 * comes holds what was stored in it. */
#include "bench_gc.h"

enum { ALIVE = 1024, BATCH = 4096 };

static uint64_t *alive[ALIVE];

int main(int argc, char **argv)
{
    long seconds = bench_argument(argc, argv, 1, "SECONDS", 10, 2, 86400);
    bench_gc_start();
    double began = bench_seconds(), next_sample = began;
    uint64_t random = 0x5eed, made = 0, wrong = 0;
    long steady_kib = 0;
    for (double now = began; now < began + (double)seconds; now = bench_seconds()) {
        if (now >= next_sample) {
            long kib = bench_status_kib("VmRSS:");
            if (now >= began + 1 && kib > steady_kib)
                steady_kib = kib;
            next_sample = now + 0.1;
        }
        for (long i = 0; i < BATCH; i++, made++) {
            uint64_t *old = alive[made % ALIVE];
            if (old != NULL && (old[0] & ~15ull) != bench_mix(made - ALIVE) << 4)
                wrong++;
            if (old != NULL && old[old[0] & 15] != old[0])
                wrong++;
            /* The low four bits say where the last word is, so the check needs no second table. */
            uint64_t last = bench_random(&random) >> 60;
            uint64_t *object = bench_gc_allocate((last + 1) * sizeof *object);
            for (uint64_t word = 0; word <= last; word++)
                wrong += object[word] != 0;
            object[0] = bench_mix(made) << 4 | last;
            object[last] = object[0];
            alive[made % ALIVE] = object;
        }
    }
    double elapsed = bench_seconds() - began;
    printf("{\"program\": \"resident\", \"seconds\": %ld, \"objects\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"ns_per_object\": %.2f"
           ", \"steady_rss_mb\": %.2f, \"peak_rss_mb\": %.2f",
           seconds, made, wrong, elapsed * 1e9 / (double)made, (double)steady_kib / 1024,
               (double)bench_status_kib("VmHWM:") / 1024);
    return bench_gc_finish(wrong == 0);
}
