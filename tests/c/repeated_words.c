/* Tables in which most words repeat those before them, in objects and in registered memory: what is
   named once among them, wherever, lives. */
#include "check.h"

enum { MOST_DEFAULTS = 4, OF_DEFAULTS = 2 * MANY };

/* Bytes of tables; where most words repeat, those above 1 KiB are read otherwise. */
static const size_t sizes[] = {1000, 1024, 2048, 5000, 32 << 10, 40000, 64 << 10, 3 << 20};
enum { TABLES = sizeof sizes / sizeof *sizes };

/* As they are until a table names them, then only hidden. */
static void *made[MOST_DEFAULTS], *defaults[MOST_DEFAULTS];

static APART void make_defaults(int count)
{
    for (int i = 0; i < count; i++) {
        made[i] = neap_alloc(64);
        defaults[i] = neap_hide(made[i]);
        watch(OF_DEFAULTS + i, made[i]);
    }
}

static APART void check_defaults(int count)
{
    for (int i = 0; i < count; i++)
        CHECK(watched[OF_DEFAULTS + i] != NULL);
}

/* Fills a table with `count` defaults in turn, and puts MANY objects that it watches from `first`
   on where chance says. */
static APART void fill(void **table, size_t words, int count, int first)
{
    for (size_t i = 0; i < words; i++)
        table[i] = neap_reveal(defaults[i % (size_t)count]);
    memset(made, 0, sizeof made);
    for (int i = 0; i < MANY; i++) {
        size_t at = words * i / MANY + (size_t)rand() % (words / MANY);
        table[at] = neap_alloc(48);
        watch(first + i, table[at]);
    }
}

/* Two tables, with the same defaults or each with its own. */
static APART void check_objects(size_t bytes, int count, int shared)
{
    void **tables[2];
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 0 || !shared)
            make_defaults(count);
        tables[turn] = neap_alloc(bytes);
        fill(tables[turn], bytes / sizeof **tables, count, 0);
        collect();
        CHECK_ALL_ALIVE(0);
        check_defaults(count);
        churn(48, 10000);
        churn(64, 10000);
    }
    collect();
    CHECK_ALL_ALIVE(0);
    check_defaults(count);
    CHECK(neap_base(tables[0]) == tables[0] && neap_base(tables[1]) == tables[1]);
}

static APART void check_root(int count)
{
    size_t bytes = 5 << 20;
    void **table = calloc(1, bytes);
    CHECK_EQUAL(neap_roots_add(table, (char *)table + bytes), NEAP_OK);
    make_defaults(count);
    fill(table, bytes / sizeof *table, count, MANY);
    collect();
    CHECK_ALL_ALIVE(MANY);
    check_defaults(count);
    CHECK_EQUAL(neap_roots_remove(table, (char *)table + bytes), NEAP_OK);
    free(table);
    collect();
    CHECK_DEAD(MANY);
}

int main(void)
{
    neap_init();
    for (int count = 1; count <= MOST_DEFAULTS; count++) {
        for (int i = 0; i < TABLES; i++) {
            check_objects(sizes[i], count, 0);
            check_objects(sizes[i], count, 1);
        }
        check_root(count);
        clear_stack();
        collect();
        CHECK_DEAD(0);
    }
    return finish();
}
