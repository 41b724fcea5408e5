/* replay FILE PROGRAM|all [conservative|typed] [LIVE]: makes the requests of a pattern file's
 * program, exactly as many and as large in every bin.
 *
 * FILE is JSON as patterns-2010.json, which is also found beside the program: for each program the
 * objects and bytes of each bin, and of what is scanned and what is not. The sizes within a bin are
 * drawn at random so that objects and bytes come out exactly, and of the bin of pages the pages
 * too, which the file's waste tells; where a program had few different sizes, neighbouring ones are
 * drawn in each bin. Requests of all bins come mixed. LIVE bytes (16M) of the newest and some older
 * objects stay alive: each request takes the place of a random one. The check: every bin got its
 * objects and its bytes, and as many were scanned as the file says. Prints a line for each program,
 * and one with the sums. */
#include "workload.h"

#include "pattern.h"

#include <unistd.h>

enum { PAGE_BYTES = 4096, SLOTS = 1 << 20 };

/* Requests of one bin and one use, of which some are still to come. */
struct stream {
    enum workload_use use;
    struct pattern_amount left;
    uint64_t low, high;    /* sizes are from low to high */
    /* what is left of the pages that its objects fill, each but for a part of its last; 0 where
       that does not matter */
    uint64_t pages;
    bool few;              /* two neighbouring sizes are enough */
};

static uint64_t random_state;
static void **live;           /* SLOTS of them, used from the beginning */
static uint64_t live_slots;

/* One of `objects` numbers from `low` to `high` whose sum is `sum`, such that the rest can still
   come out exactly. */
static uint64_t draw(uint64_t objects, uint64_t sum, uint64_t low, uint64_t high, bool few)
{
    if (objects == 1)
        return sum;
    uint64_t others_most = high > UINT64_MAX / objects ? UINT64_MAX : (objects - 1) * high;
    uint64_t least = sum > others_most ? sum - others_most : 0, most = sum - (objects - 1) * low;
    least = least < low ? low : least;
    most = most > high ? high : most;
    uint64_t mean = sum / objects, drawn;
    if (few) {
        /* The larger one as often as the mean's fraction says. */
        drawn = mean + (bench_random(&random_state) % objects < sum % objects);
    } else {
        /* As far below the mean as above it. */
        uint64_t below = mean - low, above = high - mean, reach = below < above ? below : above;
        drawn = mean - reach + bench_random(&random_state) % (2 * reach + 1);
    }
    return drawn < least ? least : drawn > most ? most : drawn;
}

/* A size for the next request of a stream; what is left of its pages is less by it. */
static uint64_t draw_size(struct stream *stream)
{
    uint64_t objects = stream->left.objects;
    if (stream->pages == 0)
        return draw(objects, stream->left.bytes, stream->low, stream->high, stream->few);
    uint64_t unused = stream->pages * PATTERN_PAGE - stream->left.bytes;
    uint64_t pages = draw(objects, stream->pages, stream->low / PATTERN_PAGE + 1,
        stream->high / PATTERN_PAGE, stream->few);
    stream->pages -= pages;
    return pages * PATTERN_PAGE - draw(objects, unused, 0, PATTERN_PAGE - 1, stream->few);
}

/* A descriptor for objects of this size: all whole words but the last may be pointers. */
static workload_descriptor typed_descriptor(uint64_t bytes)
{
    static workload_descriptor made[WORKLOAD_REMEMBERED / 8 + 2];
    static bool is_made[WORKLOAD_REMEMBERED / 8 + 2];
    uint64_t words = bytes / 8 < 64 ? bytes / 8 : 64;
    if (!is_made[words]) {
        made[words] = workload_describe((words + 1) * 8, words < 2 ? 1 : ~0ull >> (65 - words));
        is_made[words] = true;
    }
    return made[words];
}

static void *request(const struct stream *stream, uint64_t bytes)
{
    if (stream->use == WORKLOAD_LEAF)
        return workload_leaf(bytes);
    return workload_typed && bytes >= sizeof(void *)
        ? workload_described(bytes, typed_descriptor(bytes)) : workload_scanned(bytes);
}

/* Makes all requests of all streams, mixed as their numbers are; false if a stream did not come
   out. */
static bool play(struct stream *streams, int count, uint64_t live_bytes)
{
    uint64_t left = 0, bytes = 0;
    for (int i = 0; i < count; i++) {
        left += streams[i].left.objects;
        bytes += streams[i].left.bytes;
    }
    live_slots = live_bytes / (bytes / left + 1) + 1;
    live_slots = live_slots > SLOTS ? SLOTS : live_slots;
    memset(live, 0, SLOTS * sizeof *live);
    for (; left > 0; left--) {
        uint64_t chosen = bench_random(&random_state) % left;
        struct stream *stream = streams;
        for (; chosen >= stream->left.objects; stream++)
            chosen -= stream->left.objects;
        uint64_t size = draw_size(stream);
        if (size < stream->low || size > stream->high || size > stream->left.bytes)
            return false;
        live[bench_random(&random_state) % live_slots] = request(stream, size);
        stream->left.objects--;
        stream->left.bytes -= size;
    }
    for (int i = 0; i < count; i++)
        if (streams[i].left.bytes != 0)
            return false;
    return true;
}

/* Divides a program's bins into what is scanned and what is not; gives how many streams that makes,
   0 if the file's numbers allow none. */
static int divide(const struct pattern_program *program, struct stream *streams)
{
    struct pattern_amount scanned[PATTERN_BINS];
    if (!pattern_divide(program, scanned))
        return 0;
    bool few = program->different_sizes <= 2u * (unsigned)program->bins;
    int count = 0;
    for (int i = 0; i < program->bins; i++) {
        const struct pattern_bin *bin = &program->bin[i];
        struct pattern_amount rest = {bin->amount.objects - scanned[i].objects,
            bin->amount.bytes - scanned[i].bytes};
        uint64_t pages = bin->low > PATTERN_PAGE ? program->pages : 0;
        uint64_t scanned_pages = pages == 0 ? 0 : pattern_divide_pages(pages, scanned[i], rest);
        if (scanned[i].objects > 0)
            streams[count++] = (struct stream){WORKLOAD_SCANNED, scanned[i], bin->low, bin->high,
                scanned_pages, few};
        if (rest.objects > 0)
            streams[count++] = (struct stream){WORKLOAD_LEAF, rest, bin->low, bin->high,
                pages - scanned_pages, few};
    }
    return count;
}

struct sums {
    uint64_t wasted, conservative_then, precise_then; /* bytes */
    /* no program wasted more than its own figure */
    bool each_below;
};

/* Replays one program and prints its line. */
static bool replay(const struct pattern_program *program, uint64_t live_bytes, struct sums *sums)
{
    struct stream streams[2 * PATTERN_BINS];
    int count = divide(program, streams);
    struct workload_count before[WORKLOAD_USES];
    workload_merge();
    memcpy(before, workload_total, sizeof before);
    double began = bench_seconds();
    bool ok = count > 0 && play(streams, count, live_bytes);
    double seconds = bench_seconds() - began;
    workload_merge();
    struct workload_count now[WORKLOAD_USES];
    for (int use = 0; use < WORKLOAD_USES; use++) {
        now[use].objects = workload_total[use].objects - before[use].objects;
        now[use].requested = workload_total[use].requested - before[use].requested;
        now[use].allocated = workload_total[use].allocated - before[use].allocated;
    }
    ok &= now[WORKLOAD_SCANNED].objects == program->scanned.objects &&
        now[WORKLOAD_SCANNED].requested == program->scanned.bytes &&
          now[WORKLOAD_LEAF].objects + now[WORKLOAD_SCANNED].objects == program->requested.objects
              &&
          now[WORKLOAD_LEAF].requested
              + now[WORKLOAD_SCANNED].requested == program->requested.bytes;
    uint64_t wasted = now[0].allocated - now[0].requested + now[1].allocated - now[1].requested;
    sums->wasted += wasted;
    sums->conservative_then += program->conservative_wasted;
    sums->precise_then += program->precise_wasted;
    sums->each_below &= wasted <= (workload_typed ? program->precise_wasted
        : program->conservative_wasted);
    printf("{\"program\": \"replay\", \"pattern\": \"%s\", \"typed\": %s, \"seconds\": %.3f",
        program->name, workload_typed ? "true" : "false", seconds);
    workload_print_count("scanned", now[WORKLOAD_SCANNED]);
    workload_print_count("not_scanned", now[WORKLOAD_LEAF]);
    printf(", \"wasted_mb\": %.3f, \"wasted_mb_2010\": [%.3f, %.3f]", (double)wasted / 1e6,
        (double)program->conservative_wasted / 1e6,
           (double)program->precise_wasted / 1e6);
    uint64_t live_cells = 0;
    for (uint64_t i = 0; i < live_slots; i++)
        live_cells += live[i] != NULL ? workload_usable(live[i]) : 0;
    printf(", \"live_cell_bytes\": %" PRIu64, live_cells);
    workload_print_heap();
    printf(", \"ok\": %s}\n", ok ? "true" : "false");
    return ok;
}

/* The file as it is named, or, if there is none in the current folder, the one beside this
   program. */
static const char *find_file(const char *name, char *beside, size_t room)
{
    ssize_t length = access(name, F_OK) == 0 ? 0 : readlink("/proc/self/exe", beside, room - 1);
    if (length <= 0 || strchr(name, '/') != NULL)
        return name;
    beside[length] = '\0';
    char *file = strrchr(beside, '/') + 1;
    snprintf(file, room - (size_t)(file - beside), "%s", name);
    return beside;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s FILE PROGRAM|all [conservative|typed] [LIVE]\n", argv[0]);
        return 2;
    }
    static struct pattern_program programs[PATTERN_PROGRAMS];
    char beside[4096];
    int count = pattern_read(find_file(argv[1], beside, sizeof beside), programs);
    uint64_t live_bytes = bench_bytes_argument(argc, argv, 4, "LIVE", 16 << 20);
    workload_start(workload_typed_argument(argc, argv, 3));
    live = workload_plain(SLOTS * sizeof *live);
    bool all = strcmp(argv[2], "all") == 0, found = false, ok = true;
    struct sums sums = {.each_below = true};
    for (int i = 0; i < count; i++) {
        if (!all && strcmp(argv[2], programs[i].name) != 0)
            continue;
        random_state = 20100814;
        found = true;
        ok &= replay(&programs[i], live_bytes, &sums);
    }
    if (!found) {
        fprintf(stderr, "%s: %s has no program '%s'\n", argv[0], argv[1], argv[2]);
        return 2;
    }
    printf("{\"program\": \"replay\", \"pattern\": \"%s, sums\", \"wasted_part_of_2010\": %.4f, \"each_below_2010\": %s", argv[2],
           (double)sums.wasted / (double)(workload_typed ? sums.precise_then
               : sums.conservative_then), sums.each_below ? "true" : "false");
    bench_keep(live);
    return workload_finish(ok);
}
