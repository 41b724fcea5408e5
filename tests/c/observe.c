/* Statistics, for callers of other sizes too, and the steps of cycles in their order. */
#include "check.h"

static int steps[64], count;

static void note(int event, void *environment)
{
    CHECK(environment == steps);
    if (count < 64)
        steps[count] = event;
    count++;
    if (event == NEAP_EVENT_CYCLE_END)
        CHECK(neap_alloc(100) != NULL);
}

static APART void allocate_some(void)
{
    for (int i = 0; i < 1000; i++)
        CHECK(neap_alloc_leaf(1000) != NULL);
}

int main(void)
{
    neap_statistics before, after;
    unsigned char room[sizeof before + 64];
    neap_set_automatic(0);
    CHECK_EQUAL(neap_statistics_read(&before, sizeof before), sizeof before);
    allocate_some();
    CHECK_EQUAL(neap_free(neap_alloc(50000)), NEAP_OK);
    neap_statistics_read(&after, sizeof after);
    CHECK(after.allocated_objects >= before.allocated_objects + 1001 &&
        after.allocated_objects < before.allocated_objects + 1500);
    CHECK(after.allocated_bytes >= before.allocated_bytes + 1000 * 1000 + 50000);
    CHECK(after.freed_since_cycle >= 50000);
    CHECK(after.committed_bytes >= after.live_bytes && after.committed_bytes >= after.free_bytes);
    CHECK(after.metadata_bytes > 0 && after.peak_bytes >= 1000 * 1000);
    void *kept[100];
    for (int i = 0; i < 100; i++)
        kept[i] = neap_alloc(10000);
    collect();
    before = after;
    neap_statistics_read(&after, sizeof after);
    CHECK_EQUAL(after.cycles, before.cycles + 3);
    CHECK(after.pause_count >= before.pause_count + 3);
    CHECK(after.pause_max_ns >= after.pause_p99_ns && after.pause_p99_ns >= after.pause_p50_ns &&
        after.pause_p50_ns > 0);
    CHECK(after.pause_total_ns >= after.pause_max_ns);
    CHECK(after.live_bytes >= 100 * 10000 && after.live_bytes < 20 * 100 * 10000);
    CHECK(after.freed_since_cycle == 0);
    CHECK(neap_base(kept[99]) == kept[99]);

    /* A smaller struct of an older program, and a larger one of a newer. */
    memset(room, 0xee, sizeof room);
    CHECK_EQUAL(neap_statistics_read((neap_statistics *)room, 12), sizeof before);
    CHECK(room[11] != 0xee && room[12] == 0xee);
    CHECK_EQUAL(neap_statistics_read((neap_statistics *)room, sizeof room - 8), sizeof before);
    CHECK(room[sizeof before] == 0 && room[sizeof room - 9] == 0 && room[sizeof room - 8] == 0xee);
    CHECK_EQUAL(neap_statistics_read(NULL, 0), sizeof before);

    CHECK_EQUAL(neap_set_event_callback(note, steps), NEAP_OK);
    for (int turn = 0; turn < 2; turn++)
        CHECK(neap_collect());
    CHECK_EQUAL(neap_set_event_callback(NULL, NULL), NEAP_OK);
    CHECK(neap_collect());
    CHECK_EQUAL(count, 16);
    for (int i = 0; i < 16; i++)
        CHECK_EQUAL(steps[i], i % 8);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", NEAP_VERSION_MAJOR, NEAP_VERSION_MINOR,
        NEAP_VERSION_PATCH);
    CHECK(strcmp(neap_version(), version) == 0);
    return finish();
}
