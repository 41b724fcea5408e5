/* 64 threads on handles at once: they make, read, set and free their own and each other's, in
   domains that others close, and meet in monitors, while collections come. Argument: turns of each
   thread. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 64, SHARED = 256, DOMAINS = 8 };

/* What every object holds: its own check, so that a dying or foreign object shows. */
struct item { uint64_t number, check; struct item *next; };

static neap_handle shared[SHARED];
static neap_domain domains[DOMAINS];
static struct item *locked[4];
static long counts[4], turns = 4000;
static uint64_t gone, stale, closed;

static uint64_t mix(uint64_t word)
{
    word ^= word >> 31;
    return word * 0x7fb5d329728ea185u ^ 0x5bd1e995u;
}

static struct item *make(uint64_t number)
{
    struct item *item = neap_alloc(sizeof *item + number % 5 * 16);
    item->number = number;
    item->check = mix(number);
    return item;
}

static void look(struct item *item)
{
    if (item != NULL)
        CHECK(item->check == mix(item->number));
    else
        __atomic_add_fetch(&gone, 1, __ATOMIC_RELAXED);
}

/* Wrong use is part of this test: a handle may have been freed by another thread. */
static void tell(int status, const char *text, void *environment)
{
    (void)text;
    (void)environment;
    CHECK_EQUAL(status, NEAP_NOT_FOUND);
    __atomic_add_fetch(&stale, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument)
{
    uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
    struct item *kept[16] = {0};
    for (long turn = 0; turn < turns; turn++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned chosen = (unsigned)(random >> 40);
        neap_handle *place = &shared[chosen % SHARED];
        struct item *item = make(random >> 8);
        kept[chosen % 16] = item;
        switch (chosen >> 8 & 15) {
        case 0: case 1: case 2: case 3: {
            neap_handle handle = neap_handle_alloc(item, 1 + (int)(chosen >> 16 & 3));
            look(neap_handle_get(handle));
            /* Whoever takes a handle out of a place owns it. */
            neap_handle old = __atomic_exchange_n(place, handle, __ATOMIC_ACQ_REL);
            if (old != 0)
                CHECK_EQUAL(neap_handle_free(old), NEAP_OK);
            break;
        }
        case 4: case 5: case 6: case 7: case 8: {
            neap_handle handle = __atomic_load_n(place, __ATOMIC_ACQUIRE);
            if (handle != 0)
                look(neap_handle_get(handle));
            break;
        }
        case 9: {
            neap_handle handle = __atomic_load_n(place, __ATOMIC_ACQUIRE);
            if (handle != 0 && neap_handle_kind_of(handle) != 0)
                neap_handle_set(handle, item);
            break;
        }
        case 10: case 11: {
            neap_domain domain = __atomic_load_n(&domains[chosen % DOMAINS], __ATOMIC_ACQUIRE);
            neap_handle handle = neap_handle_alloc_in(domain, item, 1 + (int)(chosen >> 16 & 3));
            neap_ephemeron pair = neap_ephemeron_alloc_in(domain, item, make(turn));
            if (handle != 0 && chosen % 3 == 0)
                neap_handle_free(handle);
            if (pair != 0) {
                void *key;
                struct item *value = neap_ephemeron_get(pair, &key);
                CHECK(key == NULL || key == item);
                if (key != NULL)
                    look(value);
            }
            break;
        }
        case 12:
            if (chosen % 16 == 0) {
                neap_domain fresh = neap_domain_open();
                neap_domain old = __atomic_exchange_n(&domains[chosen % DOMAINS], fresh,
                    __ATOMIC_ACQ_REL);
                size_t freed;
                CHECK_EQUAL(neap_domain_close(old, &freed), NEAP_OK);
                __atomic_add_fetch(&closed, freed, __ATOMIC_RELAXED);
            }
            break;
        case 13: {
            int which = (int)(chosen % 4);
            CHECK_EQUAL(neap_monitor_enter(locked[which]), NEAP_OK);
            counts[which]++;
            if (chosen % 64 == 0)
                neap_monitor_wait_timed(locked[which], 1000);
            if (chosen % 32 == 0)
                CHECK_EQUAL(neap_monitor_notify(locked[which], 0), NEAP_OK);
            CHECK_EQUAL(neap_monitor_exit(locked[which]), NEAP_OK);
            __atomic_add_fetch(&locked[which]->number, 1, __ATOMIC_RELAXED);
            break;
        }
        default:
            if (chosen % 512 == 0)
                neap_collect();
        }
        for (int i = 0; i < 16; i++)
            if (kept[i] != NULL)
                look(kept[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc > 1)
        turns = atol(argv[1]);
    CHECK_EQUAL(neap_set_misuse_callback(tell, NULL), NEAP_OK);
    for (int i = 0; i < DOMAINS; i++)
        domains[i] = neap_domain_open();
    for (int i = 0; i < 4; i++)
        locked[i] = neap_alloc(sizeof **locked);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(counts[i], locked[i]->number);
    for (int i = 0; i < SHARED; i++)
        CHECK(shared[i] == 0 || neap_handle_free(shared[i]) == NEAP_OK);
    for (int i = 0; i < DOMAINS; i++)
        CHECK_EQUAL(neap_domain_close(domains[i], NULL), NEAP_OK);
    CHECK(gone > 0 && closed > 0);
    return finish();
}
