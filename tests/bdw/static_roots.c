/* GC_register_has_static_roots_callback: what it answers counts for the collection that it is asked
   for, not for later ones, nor for another library at the same addresses. Without a callback all
   static data is roots again. usage: static_roots LIBRARY, two copies of which are opened */
#include "check.h"
#include <gc/gc_mark.h>

static GC_hidden_pointer watch[MANY];

static APART void place_many(void *volatile *table)
{
    for (int index = 0; index < MANY; index++) {
        table[index] = GC_malloc(64);
        watch[index] = GC_HIDE_POINTER(table[index]);
        GC_general_register_disappearing_link((void **)&watch[index], table[index]);
    }
}

/* How many objects live of those that `table` had before a collection; empties it. */
static int alive(void *volatile *table)
{
    int count = 0;
    place_many(table);
    collect();
    for (int index = 0; index < MANY; index++) {
        count += watch[index] != 0;
        GC_unregister_disappearing_link((void **)&watch[index]);
        table[index] = NULL;
    }
    return count;
}

static void *volatile table[MANY];
static int wants_table = 1, asked;
static char refused[] = "/tmp/static-roots-refused-XXXXXX";
static char wanted[] = "/tmp/static-roots-wanted-XXXXXX";

static int has_static_roots(const char *name, void *start, size_t bytes)
{
    asked++;
    if ((char *)table >= (char *)start && (char *)table < (char *)start + bytes)
        return wants_table;
    return !name || !strstr(name, refused);
}

static void copy(const char *from, char *to)
{
    char command[4200];
    close(mkstemp(to));
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    CHECK_EQUAL(system(command), 0);
}

static void *volatile *open_table(const char *library, void **handle)
{
    *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(*handle != NULL);
    return *handle ? *(void *volatile **)dlsym(*handle, "plugin_slots") : NULL;
}

int main(int count, char **arguments)
{
    GC_INIT();
    CHECK(count == 2);
    copy(arguments[1], refused);
    copy(arguments[1], wanted);

    GC_register_has_static_roots_callback(has_static_roots);
    CHECK_EQUAL(alive(table), MANY);
    CHECK(asked > 0);
    wants_table = 0;
    CHECK(alive(table) <= STRAY);
    wants_table = 1;
    CHECK_EQUAL(alive(table), MANY);

    /* Where the one library was, which the system may give to others meanwhile. */
    void *library;
    void *volatile *slots, *volatile *before;
    for (int tries = 100;; tries--) {
        before = open_table(refused, &library);
        CHECK(before && alive(before) <= STRAY);
        dlclose(library);
        slots = open_table(wanted, &library);
        if (slots == before || tries == 0)
            break;
        dlclose(library);
    }
    CHECK(slots == before); /* else the next check cannot fail */
    CHECK(slots && alive(slots) == MANY);

    wants_table = 0;
    CHECK(alive(table) <= STRAY);
    GC_register_has_static_roots_callback(NULL);
    CHECK_EQUAL(alive(table), MANY);
    unlink(refused);
    unlink(wanted);
    return finish();
}
