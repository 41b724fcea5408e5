/* Tables in which most words repeat those before them, in objects and in registered memory: what is
   named once among them, wherever, lives. */
#include "check.h"

enum { DEFAULTS = 4 };

/* Tables of so many bytes, each of which names a part of MANY objects. */
static const size_t sizes[] = {1000, 1024, 1100, 2048, 5000, 40000, 64 << 10, 3 << 20};
enum { TABLES = sizeof sizes / sizeof *sizes };

/* Fills a table with defaults in turn, and puts MANY objects that it watches from `first` on where
   chance says. */
static APART void fill(void **table, size_t words, int defaults, int first)
{
    void *default_[DEFAULTS];
    for (int i = 0; i < defaults; i++)
        default_[i] = neap_alloc(64);
    for (size_t i = 0; i < words; i++)
        table[i] = default_[i % defaults];
    for (int i = 0; i < MANY; i++) {
        size_t at = words * i / MANY + (size_t)rand() % (words / MANY);
        table[at] = neap_alloc(48);
        watch(first + i, table[at]);
    }
}

static APART void check_object(size_t bytes, int defaults)
{
    void **table = neap_alloc(bytes);
    fill(table, bytes / sizeof *table, defaults, 0);
    collect();
    CHECK_ALL_ALIVE(0);
    churn(48, 20000);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK(neap_base(table) == table);
}

static APART void check_root(int defaults)
{
    size_t bytes = 5 << 20;
    void **table = calloc(1, bytes);
    CHECK_EQUAL(neap_roots_add(table, (char *)table + bytes), NEAP_OK);
    fill(table, bytes / sizeof *table, defaults, MANY);
    collect();
    CHECK_ALL_ALIVE(MANY);
    CHECK_EQUAL(neap_roots_remove(table, (char *)table + bytes), NEAP_OK);
    free(table);
    collect();
    CHECK_DEAD(MANY);
}

int main(void)
{
    neap_init();
    for (int defaults = 1; defaults <= DEFAULTS; defaults++) {
        for (int i = 0; i < TABLES; i++)
            check_object(sizes[i], defaults);
        check_root(defaults);
        clear_stack();
        collect();
        CHECK_DEAD(0);
    }
    return finish();
}
