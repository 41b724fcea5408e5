/* Asking for collections and forbidding them, events and callbacks, figures. */
#include "check.h"
#include <gc/gc_mark.h>

static int events[16], starts, stops;
static GC_EventType last;
static void on_event(GC_EventType event)
{
    events[event]++;
    last = event;
}
static void on_start(void)
{
    starts++;
}
static int never(void)
{
    stops++;
    return 0;
}
static int at_once(void)
{
    stops++;
    return 1;
}

static APART void garbage(long bytes)
{
    for (; bytes > 0; bytes -= 64)
        ((volatile char *)GC_malloc(64))[0] = 1;
}

static void forbidding(void)
{
    GC_word before = GC_get_gc_no();
    CHECK(!GC_is_disabled());
    GC_disable();
    GC_disable();
    CHECK(GC_is_disabled() && GC_dont_gc == 2);
    GC_gcollect();
    CHECK_EQUAL(GC_try_to_collect(never), 0);
    garbage(20 << 20);
    CHECK_EQUAL(GC_get_gc_no(), before);
    GC_enable();
    CHECK(GC_is_disabled());
    GC_gcollect();
    CHECK_EQUAL(GC_get_gc_no(), before);
    GC_enable();
    CHECK(!GC_is_disabled());
    GC_gcollect();
    CHECK(GC_get_gc_no() > before);

    before = GC_get_gc_no();
    GC_dont_gc = 1;
    GC_gcollect();
    garbage(20 << 20);
    CHECK_EQUAL(GC_get_gc_no(), before);
    GC_dont_gc = 0;
    GC_gcollect();
    CHECK(GC_get_gc_no() > before);

    /* What the program writes counts, whatever was called before. */
    GC_disable();
    GC_dont_gc = 0;
    before = GC_get_gc_no();
    garbage(200 << 20);
    CHECK(GC_get_gc_no() > before);
    GC_disable();
    GC_disable();
    GC_dont_gc--;
    GC_enable();
    CHECK(!GC_is_disabled());
    before = GC_get_gc_no();
    GC_gcollect();
    CHECK(GC_get_gc_no() > before);
}

static void asking(void)
{
    GC_word before = GC_get_gc_no();
    CHECK_EQUAL(GC_try_to_collect(at_once), 0);
    CHECK_EQUAL(GC_get_gc_no(), before);
    CHECK_EQUAL(GC_try_to_collect(never), 1);
    CHECK(GC_get_gc_no() > before);
    CHECK(stops >= 2);
    CHECK(GC_get_stop_func() != 0);
    GC_stop_func old = GC_get_stop_func();
    GC_set_stop_func(at_once);
    before = GC_get_gc_no();
    GC_gcollect();
    CHECK_EQUAL(GC_get_gc_no(), before);
    GC_gcollect_and_unmap();
    CHECK(GC_get_gc_no() > before);
    GC_set_stop_func(old);
    before = GC_get_gc_no();
    garbage(200 << 20);
    CHECK(GC_get_gc_no() > before);
    GC_set_disable_automatic_collection(1);
    CHECK_EQUAL(GC_get_disable_automatic_collection(), 1);
    GC_set_disable_automatic_collection(0);
}

static void watching(void)
{
    GC_gcollect(); /* none is under way that began unwatched */
    GC_set_on_collection_event(on_event);
    GC_set_start_callback(on_start);
    CHECK(GC_get_on_collection_event() == on_event && GC_get_start_callback() == on_start);
    GC_gcollect();
    CHECK(starts >= 1);
    CHECK_EQUAL(starts, events[GC_EVENT_START]);
    GC_EventType each[] = {GC_EVENT_START, GC_EVENT_MARK_START, GC_EVENT_MARK_END,
                           GC_EVENT_RECLAIM_START, GC_EVENT_RECLAIM_END, GC_EVENT_END,
                           GC_EVENT_PRE_STOP_WORLD, GC_EVENT_POST_STOP_WORLD,
                           GC_EVENT_PRE_START_WORLD, GC_EVENT_POST_START_WORLD};
    for (unsigned index = 0; index < sizeof each / sizeof *each; index++)
        CHECK(events[each[index]] >= 1);
    CHECK_EQUAL(last, GC_EVENT_END);
    GC_set_on_collection_event(0);
    GC_set_start_callback(0);
}

static void figures(void)
{
    size_t total = GC_get_total_bytes();
    void *volatile kept = GC_malloc(1 << 20);
    CHECK(GC_get_total_bytes() - total >= 1 << 20);
    CHECK(GC_get_bytes_since_gc() >= 1 << 20);
    GC_gcollect();
    CHECK(GC_get_bytes_since_gc() < 1 << 20);
    CHECK(GC_get_heap_size() >= 1 << 20);
    CHECK(GC_get_free_bytes() <= GC_get_heap_size());
    CHECK(GC_get_memory_use() >= 1 << 20);
    CHECK(GC_get_obtained_from_os_bytes() >= GC_get_heap_size());
    GC_word heap, unused, unmapped, since, all;
    GC_get_heap_usage_safe(&heap, &unused, &unmapped, &since, &all);
    CHECK(heap >= 1 << 20 && unused <= heap && all >= total);
    GC_get_heap_usage_safe(NULL, NULL, NULL, NULL, &all);
    struct { struct GC_prof_stats_s known; GC_word beyond; } figures;
    CHECK_EQUAL(GC_get_prof_stats(&figures.known, sizeof figures), sizeof figures.known);
    CHECK_EQUAL(figures.beyond, -1);
    CHECK(figures.known.heapsize_full >= 1 << 20);
    CHECK_EQUAL(figures.known.gc_no, GC_get_gc_no());
    CHECK_EQUAL(GC_get_prof_stats(&figures.known, 2 * sizeof(GC_word)), 2 * sizeof(GC_word));
    CHECK_EQUAL(GC_gc_no, GC_get_gc_no());
    GC_start_performance_measurement();
    GC_gcollect();
    CHECK(GC_get_full_gc_total_time() < 60000);
    GC_reachable_here(kept);

    size_t before = GC_get_heap_size();
    CHECK_EQUAL(GC_expand_hp(8 << 20), 1);
    CHECK(GC_get_heap_size() + GC_get_unmapped_bytes() >= before + (8 << 20));
}

/* Collections while 150 MB of garbage are made beside 15 MB of live memory. */
static APART GC_word collections(GC_word divisor)
{
    static void *volatile live[15] __attribute__((used));
    for (int index = 0; index < 15; index++)
        live[index] = GC_malloc(1 << 20);
    GC_set_free_space_divisor(divisor);
    GC_gcollect();
    GC_word before = GC_get_gc_no();
    garbage(150 << 20);
    return GC_get_gc_no() - before;
}

static void settings(void)
{
    GC_word few = collections(1), many = collections(12);
    CHECK(many > few);
    GC_set_free_space_divisor(5);
    CHECK_EQUAL(GC_get_free_space_divisor(), 5);
    GC_set_free_space_divisor(3);
    GC_set_full_freq(7);
    CHECK(GC_get_full_freq() == 7 && GC_full_freq == 7);
    GC_set_time_limit(GC_TIME_UNLIMITED);
    CHECK_EQUAL(GC_get_time_limit(), GC_TIME_UNLIMITED);
    GC_set_max_retries(2);
    CHECK_EQUAL(GC_get_max_retries(), 2);
    GC_set_rate(10);
    CHECK_EQUAL(GC_get_rate(), 10);
    GC_set_dont_expand(1);
    CHECK_EQUAL(GC_get_dont_expand(), 1);
    GC_set_dont_expand(0);
    CHECK(GC_incremental_protection_needs() == 0 || GC_is_incremental_mode() == 0);
    CHECK(GC_is_init_called());
}

/* What is due, it does. */
static void a_little(void)
{
    GC_disable();
    garbage(200 << 20);
    GC_word before = GC_get_gc_no();
    GC_enable();
    while (GC_collect_a_little())
        ;
    CHECK(GC_get_gc_no() > before);
}

static void by_request_only(void)
{
    GC_gcollect_and_unmap();
    GC_set_disable_automatic_collection(1);
    GC_word before = GC_get_gc_no();
    garbage(600 << 20);
    CHECK(GC_get_gc_no() <= before + 1); /* what had begun */
    GC_set_disable_automatic_collection(0);
}

int main(void)
{
    GC_set_all_interior_pointers(1);
    GC_INIT();
    GC_INIT();
    forbidding();
    asking();
    watching();
    figures();
    settings();
    a_little();
    by_request_only();
    return finish();
}
