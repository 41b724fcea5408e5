/* Roots that the program names: memory of malloc is none until it is registered, and none again
   when it is removed; the root callback; exclusions; interior pointers keep their objects. */
#include "check.h"
#include <sys/mman.h>

static void **outside;         /* memory that nothing scans */
static void *excluded[MANY];   /* writable data that is excluded */
static void *in_data[MANY];

static APART void fill(void **place, int first, size_t interior)
{
    for (int i = 0; i < MANY; i++) {
        char *object = neap_alloc(64);
        object[63] = (char)i;
        watch(first + i, object);
        place[i] = object + interior;
    }
}

static void name_roots(neap_tracer *tracer, void *environment)
{
    void **place = environment;
    neap_trace_range(tracer, place, place + MANY / 2);
    for (int i = MANY / 2; i < MANY; i++)
        neap_trace_word(tracer, place[i]);
}

int main(void)
{
    size_t bytes = 2 * MANY * sizeof(void *);
    outside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(outside != MAP_FAILED);

    fill(outside, 0, 0);
    collect();
    CHECK_DEAD(0);

    CHECK_EQUAL(neap_roots_add(outside, outside + 2 * MANY), NEAP_OK);
    fill(outside, 0, 0);
    fill(outside + MANY, MANY, 63);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(*(char *)outside[MANY + i], i);
    /* Of a longer range the rest stays. */
    CHECK_EQUAL(neap_roots_remove(outside, outside + MANY), NEAP_OK);
    collect();
    CHECK_DEAD(0);
    CHECK_ALL_ALIVE(MANY);
    neap_roots_clear();
    collect();
    CHECK_DEAD(MANY);

    fill(outside, 0, 8);
    CHECK_EQUAL(neap_set_root_callback(name_roots, outside), NEAP_OK);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_EQUAL(neap_set_root_callback(NULL, NULL), NEAP_OK);
    collect();
    CHECK_DEAD(0);

    fill(in_data, 0, 17);
    fill(excluded, MANY, 0);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    CHECK_EQUAL(neap_roots_exclude(excluded, excluded + MANY), NEAP_OK);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_DEAD(MANY);
    /* Uncollectable objects live and keep what they point to, leaves keep nothing. */
    void **keeper = neap_alloc_uncollectable(MANY * sizeof(void *)),
        **leaf = neap_alloc_uncollectable_leaf(MANY * sizeof(void *));
    fill(keeper, 2 * MANY, 0);
    fill(leaf, 3 * MANY, 0);
    in_data[0] = neap_hide(keeper);
    keeper = NULL;
    collect();
    CHECK_ALL_ALIVE(2 * MANY);
    CHECK_DEAD(3 * MANY);
    CHECK_EQUAL(neap_free(neap_reveal(in_data[0])), NEAP_OK);
    collect();
    CHECK_DEAD(2 * MANY);
    neap_set_static_roots(0);
    collect();
    CHECK_DEAD(0);
    return finish();
}
