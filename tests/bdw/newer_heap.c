/* The heap and its collections by names of newer versions: memory from the system, accounts,
   blocks, locks, finalizers a few at a time. On Neap only. */
#include "newer.h"
#include <gc/javaxfc.h>

enum { MEGABYTE = 1 << 20 };

static char *first_end;
static size_t told_bytes, refused_bytes;
static int refusals, apart;

static void note_memory(void *space, size_t bytes)
{
    if (!space) {
        refusals++;
        refused_bytes = bytes;
        return;
    }
    /* The heap is one range, so the pieces lie side by side. */
    if (first_end && space != first_end)
        apart++;
    first_end = (char *)space + bytes;
    told_bytes += bytes;
}

static GC_word resized_to;

static void note_size(GC_word bytes)
{
    resized_to = bytes;
}

static void check_memory(void)
{
    GC_set_on_heap_resize(note_size);
    CHECK(GC_get_on_os_get_mem() == NULL);
    GC_set_on_os_get_mem(note_memory);
    CHECK(GC_get_on_os_get_mem() == note_memory);
    size_t before = GC_get_heap_size() + GC_get_unmapped_bytes();
    CHECK_EQUAL(GC_expand_hp(16 * MEGABYTE), 1);
    CHECK(told_bytes >= 16 * MEGABYTE);
    CHECK(resized_to >= 16 * MEGABYTE);
    void **volatile list = NULL;
    for (int index = 0; index < 64; index++) {
        void **object = GC_malloc(MEGABYTE);
        object[0] = list;
        list = object;
    }
    CHECK(told_bytes >= 64 * MEGABYTE);
    CHECK_EQUAL(apart, 0);
    CHECK(GC_is_heap_ptr(first_end - 1));
    /* What came before it was asked to tell is not told. */
    CHECK(told_bytes <= GC_get_heap_size() + GC_get_unmapped_bytes() - before + 4 * MEGABYTE);
    CHECK_EQUAL(refusals, 0);
    CHECK(GC_malloc((size_t)1 << 60) == NULL);
    CHECK_EQUAL(refusals, 1);
    CHECK(refused_bytes >= (size_t)1 << 60);
    GC_set_on_os_get_mem(NULL);
    size_t last = told_bytes;
    for (int index = 0; index < 64; index++) {
        void **object = GC_malloc(MEGABYTE);
        object[0] = list;
        list = object;
    }
    CHECK_EQUAL(told_bytes, last);
}

static void check_accounts(void)
{
    GC_finish_and_disable(); /* what is counted since a cycle is counted anew when one ends */
    size_t since = GC_get_bytes_since_gc(), total = GC_get_total_bytes();
    size_t freed = GC_get_expl_freed_bytes_since_gc();
    GC_incr_bytes_allocd(123456789);
    CHECK_EQUAL(GC_get_bytes_since_gc() - since, 123456789);
    CHECK_EQUAL(GC_get_total_bytes() - total, 123456789);
    GC_incr_bytes_freed(1234567);
    CHECK_EQUAL(GC_get_expl_freed_bytes_since_gc() - freed, 1234567);
    GC_enable();
    /* They bring the next collection nearer. */
    GC_gcollect();
    GC_word number = GC_get_gc_no();
    for (int round = 0; round < 200 && GC_get_gc_no() == number; round++) {
        GC_incr_bytes_allocd(16 * MEGABYTE);
        for (int index = 0; index < 100; index++)
            GC_malloc(16);
        GC_malloc(MEGABYTE / 8);
        usleep(1000);
    }
    CHECK(GC_get_gc_no() > number);
}

struct map {
    char *whole, *whole_end, *next;
    size_t parts, used, free, unmapped;
    void *object;
    int type_of_object;
};

static void note_section(void *start, void *end, int type, void *data)
{
    struct map *map = data;
    CHECK((char *)start < (char *)end);
    if (type == 5) {
        CHECK(map->whole == NULL && map->parts == 0);
        map->whole = map->next = start;
        map->whole_end = end;
        return;
    }
    CHECK((char *)start == map->next);
    map->next = end;
    map->parts++;
    size_t bytes = (char *)end - (char *)start;
    CHECK(type == 0 || type == 2 || type == 3);
    *(type == 0 ? &map->free : type == 2 ? &map->used : &map->unmapped) += bytes;
    if (map->object >= start && map->object < end)
        map->type_of_object = type;
}

static struct map sections(void *object)
{
    struct map map = {.object = object, .type_of_object = -1};
    GC_foreach_heap_section_inner(note_section, &map);
    CHECK(map.whole && map.next == map.whole_end);
    CHECK(map.used > 0);
    return map;
}

static void note_block(struct GC_hblk_s *block, void *data)
{
    CHECK_EQUAL((uintptr_t)block % GC_get_hblk_size(), 0);
    CHECK(GC_is_heap_ptr(block));
    struct map *map = data;
    map->parts++;
    if ((void *)block == map->object)
        map->type_of_object = 2;
}

static void note_free(struct GC_hblk_s *block, int list, void *data)
{
    CHECK(list >= 0);
    struct map *map = data;
    map->parts++;
    /* Rows of free memory are named by their start only. */
    if ((char *)block <= map->object)
        map->next = (char *)block;
}

static void check_blocks(void)
{
    char *volatile large = GC_malloc(8 * MEGABYTE);
    CHECK_EQUAL(sections(large).type_of_object, 2);
    CHECK_EQUAL(sections(large + 8 * MEGABYTE - 1).type_of_object, 2);
    struct map blocks = {.object = large};
    GC_apply_to_all_blocks(note_block, &blocks);
    CHECK_EQUAL(blocks.type_of_object, 2);
    CHECK(blocks.parts > 1);
    GC_finish_and_disable(); /* what is freed while a cycle runs goes when the cycle ends */
    size_t used = sections(large).used;
    GC_free(large);
    struct map after = sections(large);
    CHECK(after.type_of_object == 0 || after.type_of_object == 3);
    CHECK(used - after.used >= 8 * MEGABYTE);
    struct map rows = {.object = large};
    GC_iterate_free_hblks(note_free, &rows);
    CHECK(rows.parts > 0 && rows.next && rows.next <= large);
    GC_enable();
    CHECK(GC_is_black_listed((struct GC_hblk_s *)(void *)large, 100) == NULL);

    enum { ALONE = 2000 };
    void **volatile kept = GC_malloc(ALONE * sizeof(void *));
    char *volatile alone = GC_malloc_atomic(MEGABYTE);
    for (int index = 0; index < ALONE; index++)
        kept[index] = GC_malloc_atomic(1000);
    GC_gcollect();
    GC_disable();
    CHECK_EQUAL(GC_count_set_marks_in_hblk(alone), 1);
    CHECK_EQUAL(GC_count_set_marks_in_hblk(&rows), 0);
    unsigned most = 0;
    for (int index = 0; index < ALONE; index++) {
        unsigned marks = GC_count_set_marks_in_hblk(kept[index]);
        CHECK(marks >= 1);
        most = marks > most ? marks : most;
    }
    /* Blocks in the middle of so many are full of them. */
    CHECK(most >= GC_get_hblk_size() / 1024 / 2);
    GC_enable();
}

static volatile int inside, entered;

static void *stay_inside(void *data)
{
    inside = 1;
    CHECK_EQUAL(GC_try_to_collect(GC_get_stop_func()), 0);
    usleep(100000);
    CHECK_EQUAL(entered, 0);
    inside = 0;
    return data;
}

static void *enter(void *data)
{
    CHECK_EQUAL(inside, 0);
    entered = 1;
    return data;
}

static void *enter_on_a_thread(void *data)
{
    while (!inside)
        usleep(100);
    return GC_call_with_alloc_lock(enter, data);
}

static void check_lock(void)
{
    pthread_t thread;
    void *result;
    for (int release = 0; release < 2; release++) {
        entered = 0;
        CHECK_EQUAL(pthread_create(&thread, NULL, enter_on_a_thread, &thread), 0);
        CHECK(GC_call_with_reader_lock(stay_inside, &result, release) == &result);
        pthread_join(thread, &result);
        CHECK(result == &thread && entered);
    }
}

static int finalized;

static void finalize(void *object, void *data)
{
    (void)object, (void)data;
    finalized++;
}

static APART void make_finalizable(void)
{
    for (int index = 0; index < MANY; index++)
        GC_register_finalizer(GC_malloc(16), finalize, NULL, NULL, NULL);
}

static void check_finalizers(void)
{
    CHECK_EQUAL(GC_get_interrupt_finalizers(), 0);
    GC_set_finalize_on_demand(1);
    GC_set_interrupt_finalizers(7);
    CHECK_EQUAL(GC_get_interrupt_finalizers(), 7);
    make_finalizable();
    clear_stack();
    GC_gcollect();
    GC_gcollect();
    for (int round = 1; round <= 5; round++) {
        CHECK_EQUAL(GC_invoke_finalizers(), 7);
        CHECK_EQUAL(finalized, 7 * round);
        CHECK(GC_should_invoke_finalizers());
    }
    GC_set_interrupt_finalizers(0);
    int rest = GC_invoke_finalizers();
    CHECK_NEARLY_ALL(35 + rest);
    CHECK_EQUAL(finalized, 35 + rest);
    CHECK(!GC_should_invoke_finalizers());
    /* By themselves they come in such pieces too. */
    GC_set_interrupt_finalizers(7);
    GC_set_finalize_on_demand(0);
    make_finalizable();
    clear_stack();
    finalized = 0;
    GC_gcollect();
    CHECK(finalized > 0 && finalized <= 14);
    GC_finalize_all();
    CHECK_EQUAL(GC_get_interrupt_finalizers(), 0);
    CHECK(finalized >= MANY);
}

static void check_disabling(void)
{
    for (int round = 0; round < 20; round++) {
        /* Enough for a collection to begin beside the program, where they do. */
        void **volatile list = NULL;
        GC_word number = GC_get_gc_no();
        for (int index = 0; index < 2000 + 500 * round && GC_get_gc_no() == number; index++) {
            void **object = GC_malloc(4096);
            object[0] = list;
            list = object;
        }
        GC_finish_and_disable();
        CHECK(GC_is_disabled());
        number = GC_get_gc_no();
        GC_gcollect();
        usleep(20000);
        CHECK_EQUAL(GC_get_gc_no(), number);
        GC_enable();
        CHECK(!GC_is_disabled());
    }
    GC_word number = GC_get_gc_no();
    GC_gcollect();
    CHECK(GC_get_gc_no() > number);
    /* Whoever holds collections off would wait for himself. */
    GC_alloc_lock();
    GC_finish_and_disable();
    GC_alloc_unlock();
    CHECK(GC_is_disabled());
    GC_enable();
}

static unsigned long long stopped_ns(void)
{
    unsigned long fraction = GC_get_full_gc_total_ns_frac();
    CHECK(fraction < 1000000);
    return GC_get_full_gc_total_time() * 1000000ull + fraction;
}

static void check_figures(void)
{
    GC_start_performance_measurement();
    unsigned long long before = stopped_ns();
    unsigned long mark_before = GC_get_stopped_mark_total_time();
    for (int round = 0; round < 5; round++)
        GC_gcollect();
    CHECK(stopped_ns() > before);
    CHECK(GC_get_stopped_mark_total_time() >= mark_before);
    CHECK(GC_get_stopped_mark_total_time() <= GC_get_full_gc_total_time());
    /* In whole milliseconds, of which each stop takes a part. */
    for (int round = 0; round < 5000 && GC_get_stopped_mark_total_time() == mark_before; round++)
        GC_gcollect();
    CHECK(GC_get_stopped_mark_total_time() > mark_before);
    /* Nanoseconds of a whole number of milliseconds are one chance in a million. */
    CHECK(GC_get_full_gc_total_ns_frac() > 0);
    unsigned long average = GC_get_avg_stopped_mark_time_ns();
    CHECK(average > 0 && average <= stopped_ns());
    /* The way of watching is one for the whole run; the mode is on when it is asked for. */
    const char *watch = getenv("NEAP_WATCH");
    unsigned supported = GC_get_supported_vdbs();
    if (!strcmp(watch, "none"))
        CHECK_EQUAL(supported, 0); /* GC_VDB_NONE */
    else if (strcmp(watch, "pagemap"))
        CHECK_EQUAL(supported, 0x4); /* GC_VDB_DEFAULT */
    else
        CHECK(supported == 0x40 || supported == 0); /* GC_VDB_SOFT, where it works */
    CHECK_EQUAL(GC_get_actual_vdb(), 0);
    CHECK_EQUAL(GC_is_incremental_mode(), 0);
    GC_enable_incremental();
    CHECK_EQUAL(GC_is_incremental_mode(), supported != 0);
    CHECK_EQUAL(GC_get_actual_vdb(), supported);
    GC_start_incremental_collection();
    CHECK_EQUAL(GC_get_mprotect_vdb_allowed(), 1);
    GC_set_mprotect_vdb_allowed(0);
    CHECK_EQUAL(GC_get_mprotect_vdb_allowed(), 0);
    GC_set_pointer_mask(~(GC_word)0);
    CHECK(GC_get_pointer_mask() == ~(GC_word)0);
    GC_set_pointer_shift(0);
    CHECK_EQUAL(GC_get_pointer_shift(), 0);
}

int main(void)
{
    static void *volatile ballast;
    CHECK_EQUAL(GC_get_supported_vdbs(), 0);
    GC_INIT();
    GC_allow_register_threads();
    GC_set_warn_proc(GC_ignore_warn_proc);
    ballast = make_ballast();
    GC_gcollect();
    check_memory();
    check_accounts();
    check_blocks();
    check_lock();
    check_finalizers();
    check_disabling();
    check_figures();
    CHECK(ballast);
    return finish();
}
