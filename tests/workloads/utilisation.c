/* utilisation: bench/programs/utilisation.h against a slow count, and the percentiles of
 * bench/programs/times.h against sorted times.
 *
 * Random gaps, most of them short, in several densities; the slow count puts a window at every
 * place that a gap begins or ends, before and behind it, and adds up what it covers. Prints its
 * seed and exits 1 at the first difference. Called by run.sh. */
#include "../../bench/programs/utilisation.h"
#include "../../bench/programs/times.h"

enum { GAPS = 3000, TIMES = 20000 };

static struct utilisation all;
static struct times times;
static uint64_t starts[GAPS], ends[GAPS], sorted[TIMES];

/* What is lost in [from, from + length). */
static uint64_t lost(uint64_t from, uint64_t length)
{
    uint64_t sum = 0, to = from + length;
    for (int i = 0; i < GAPS; i++) {
        uint64_t low = starts[i] > from ? starts[i] : from, high = ends[i] < to ? ends[i] : to;
        sum += high > low ? high - low : 0;
    }
    return sum;
}

static uint64_t slow_most(uint64_t length)
{
    uint64_t most = 0;
    for (int i = 0; i < GAPS; i++) {
        uint64_t places[] = {starts[i], ends[i], starts[i] - length, ends[i] - length};
        for (int place = 0; place < 4; place++) {
            uint64_t sum = lost(places[place], length);
            if (sum > most)
                most = sum;
        }
    }
    return most;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)bench_argument(argc, argv, 1, "SEED", (long)(bench_nanoseconds() >> 8),
        1, INT64_MAX), random = seed;
    printf("seed %" PRIu64 "\n", seed);
    for (unsigned density = 15; density <= 27; density += 4) {
        memset(&all, 0, sizeof all);
        /* No window begins before the clock does. */
        uint64_t now = 1000000000;
        for (int i = 0; i < GAPS; i++) {
            starts[i] = now + bench_random(&random) % (1u << density);
            unsigned size = 10 + (unsigned)(bench_random(&random) >> 32) % (i % 50 == 0 ? 16 : 6);
            now = ends[i] = starts[i] + LEAST_GAP_NS + (bench_random(&random) >> (64 - size));
            utilisation_gap(&all, starts[i], ends[i]);
        }
        for (unsigned window = 0; window < WINDOWS; window++) {
            uint64_t wanted = slow_most(window_ms[window] * (uint64_t)1000000);
            if (all.most[window] != wanted) {
                printf("density %u, %u ms: %" PRIu64 " ns lost, the slow count has %" PRIu64 "\n",
                    density, window_ms[window], all.most[window], wanted);
                return 1;
            }
        }
    }
    for (int i = 0; i < TIMES; i++) {
        sorted[i] = bench_random(&random) >> (24 + bench_random(&random) % 38);
        times_add(&times, sorted[i]);
    }
    qsort(sorted, TIMES, sizeof *sorted, by_value);
    const double fractions[] = {0, 0.5, 0.99, 0.999, 0.9999};
    for (int i = 0; i < 5; i++) {
        uint64_t right = sorted[(int)(fractions[i] * TIMES)],
            found = times_quantile(&times, fractions[i]);
        if (found < right || (double)found > (double)right * (1 + 1.0 / STEPS)) {
            printf("quantile %g: %" PRIu64 " instead of %" PRIu64 "\n", fractions[i], found, right);
            return 1;
        }
    }
    return times.longest == sorted[TIMES - 1] ? 0 : 1;
}
