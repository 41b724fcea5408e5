/* Mark procedures in the incremental mode: they are called in many short stops, again for objects
   on written pages alone, and nothing that they name is lost. Before the program asks for the mode
   all of them are called in one stop, since they may read what lies elsewhere. */
#include "check.h"
#include <dlfcn.h>
#include <gc/gc_mark.h>

enum { LEVELS = 18, OBJECTS = (1 << LEVELS) - 1 };

struct node {
    struct node *left, *right;
    unsigned long key, fill;
};

static struct node *root;
static int kind;
/* Written where the procedures run, one at a time. */
static long calls, in_this_stop, most_in_a_stop;

static struct GC_ms_entry *mark(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                GC_word environment)
{
    struct node *node = (struct node *)object;
    (void)environment;
    calls++;
    in_this_stop++;
    top = GC_MARK_AND_PUSH(node->left, top, limit, (void **)&node->left);
    return GC_MARK_AND_PUSH(node->right, top, limit, (void **)&node->right);
}

static void GC_CALLBACK event(GC_EventType type)
{
    if (type == GC_EVENT_PRE_STOP_WORLD)
        in_this_stop = 0;
    if (type == GC_EVENT_POST_START_WORLD && in_this_stop > most_in_a_stop)
        most_in_a_stop = in_this_stop;
}

static struct node *make(unsigned long key, int levels)
{
    struct node *node = GC_generic_malloc(sizeof *node, kind);
    node->key = key;
    if (levels > 1) {
        node->left = make(2 * key, levels - 1);
        node->right = make(2 * key + 1, levels - 1);
    }
    return node;
}

static long wrong(const struct node *node, unsigned long key, int levels)
{
    if (node == NULL || node->key != key)
        return 1;
    if (levels == 1)
        return node->left != NULL || node->right != NULL;
    return wrong(node->left, 2 * key, levels - 1) + wrong(node->right, 2 * key + 1, levels - 1);
}

/* Trees are made anew all over the place, while collections run. */
static APART void replace(int times)
{
    static unsigned long random = 4711;
    for (int turn = 0; turn < times; turn++) {
        struct node *node = root;
        unsigned long key = 1;
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        for (int level = 1; level < LEVELS - 4; level++) {
            unsigned right = random >> (20 + level) & 1;
            node = right ? node->right : node->left;
            key = 2 * key + right;
        }
        int levels = LEVELS - (LEVELS - 4);
        struct node *made = make(2 * key, levels);
        /* The new one is kept by the old one's word alone, or the other way round. */
        node->left = made;
        node->right = make(2 * key + 1, levels);
        for (int garbage = 0; garbage < 20; garbage++)
            GC_malloc(64);
    }
}

/* Whether written pages are reported to the library, which calls procedures in this process then
   and in the mode again for what is on them alone. */
static int reports_pages(void)
{
    enum { MPROTECT = 0x1, SOFT = 0x40 };
    GC_word (*supported)(void) = (GC_word(*)(void))dlsym(RTLD_DEFAULT, "GC_get_supported_vdbs");
    return on_neap() && supported != NULL && (supported() & (MPROTECT | SOFT)) != 0;
}

int main(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark), 0), 0, 1);
    root = make(1, LEVELS);
    GC_set_on_collection_event(event);
    GC_gcollect();
    if (reports_pages())
        CHECK(most_in_a_stop >= OBJECTS);

    GC_enable_incremental();
    calls = most_in_a_stop = 0;
    for (int turn = 0; turn < 20; turn++) {
        replace(4000);
        CHECK_EQUAL(wrong(root, 1, LEVELS), 0);
    }
    if (reports_pages()) {
        CHECK(GC_is_incremental_mode());
        CHECK(calls >= OBJECTS);
        CHECK(most_in_a_stop < OBJECTS / 4);
    }
    GC_gcollect();
    CHECK_EQUAL(wrong(root, 1, LEVELS), 0);
    return finish();
}
