/* Disappearing links: short and long, hidden pointers, codes, moving, links inside objects that die
   themselves. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static GC_hidden_pointer hidden[MANY];

static APART void make_linked(void)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_malloc(32);
        hidden[index] = GC_HIDE_POINTER(object);
        CHECK_EQUAL(GC_general_register_disappearing_link((void **)&hidden[index], object),
            GC_SUCCESS);
    }
}

static int cleared(void)
{
    int count = 0;
    for (int index = 0; index < MANY; index++)
        count += hidden[index] == 0;
    return count;
}

static void hidden_pointers(void)
{
    make_linked();
    void *held = GC_REVEAL_POINTER(hidden[3]);
    CHECK_EQUAL(cleared(), 0);
    collect();
    CHECK(cleared() >= MANY - STRAY - 1);
    CHECK(hidden[3] != 0 && GC_REVEAL_POINTER(hidden[3]) == held);
    GC_reachable_here(held);
    CHECK_EQUAL(GC_unregister_disappearing_link((void **)&hidden[3]), 1);
    CHECK_EQUAL(GC_unregister_disappearing_link((void **)&hidden[3]), 0);
}

static int finalized;
static void *survivors[MANY];
static void survive(void *object, void *data)
{
    (void)data;
    if (finalized < MANY)
        survivors[finalized++] = object;
}

static GC_hidden_pointer shorts[MANY], longs[MANY];
static APART void make_finalizable(void)
{
    for (int index = 0; index < MANY; index++) {
        void *object = GC_malloc(32);
        shorts[index] = longs[index] = GC_HIDE_POINTER(object);
        GC_register_finalizer_no_order(object, survive, NULL, NULL, NULL);
        CHECK_EQUAL(GC_general_register_disappearing_link((void **)&shorts[index], object),
            GC_SUCCESS);
        CHECK_EQUAL(GC_REGISTER_LONG_LINK((void **)&longs[index], object), GC_SUCCESS);
    }
}

static void short_and_long(void)
{
    make_finalizable();
    collect();
    CHECK_NEARLY_ALL(finalized);
    int short_count = 0, long_count = 0;
    for (int index = 0; index < MANY; index++) {
        short_count += shorts[index] == 0;
        long_count += longs[index] == 0;
    }
    CHECK_EQUAL(short_count, finalized);
    CHECK_EQUAL(long_count, 0);
    memset(survivors, 0, sizeof survivors);
    collect();
    for (int index = 0; index < MANY; index++)
        long_count += longs[index] == 0;
    CHECK_NEARLY_ALL(long_count);
}

static void codes(void)
{
    static void *link, *other, *third;
    void *object = GC_malloc(16);
    link = object;
    CHECK_EQUAL(GC_general_register_disappearing_link(&link, object), GC_SUCCESS);
    CHECK_EQUAL(GC_general_register_disappearing_link(&link, object), GC_DUPLICATE);
    CHECK_EQUAL(GC_move_disappearing_link(&other, &third), GC_NOT_FOUND);
    CHECK_EQUAL(GC_move_disappearing_link(&link, &link), GC_SUCCESS);
    CHECK_EQUAL(GC_move_disappearing_link(&link, &other), GC_SUCCESS);
    CHECK_EQUAL(GC_general_register_disappearing_link(&link, object), GC_SUCCESS);
    CHECK_EQUAL(GC_move_disappearing_link(&link, &other), GC_DUPLICATE);
    CHECK_EQUAL(GC_unregister_disappearing_link(&link), 1);
    CHECK_EQUAL(GC_unregister_disappearing_link(&other), 1);
    CHECK_EQUAL(GC_unregister_disappearing_link(&other), 0);
    CHECK_EQUAL(GC_register_long_link(&link, object), GC_SUCCESS);
    CHECK_EQUAL(GC_register_long_link(&link, object), GC_DUPLICATE);
    CHECK_EQUAL(GC_move_long_link(&link, &other), GC_SUCCESS);
    CHECK_EQUAL(GC_unregister_long_link(&link), 0);
    CHECK_EQUAL(GC_unregister_long_link(&other), 1);
    CHECK_EQUAL(GC_move_long_link(&link, &other), GC_NOT_FOUND);
}

/* Links inside objects that die first: nothing may be written into whatever is there afterwards. */
static APART void make_links_inside(void *target)
{
    for (int index = 0; index < 1000; index++) {
        void **holder = GC_malloc_atomic(64);
        memset(holder, 0xEE, 64);
        for (int word = 0; word < 8; word++)
            CHECK_EQUAL(GC_general_register_disappearing_link(&holder[word], target), GC_SUCCESS);
    }
}

static APART void dangling(void)
{
    static long *filled[20000];
    void *target = GC_malloc(16);
    make_links_inside(target);
    collect();
    for (int index = 0; index < 20000; index++) {
        filled[index] = GC_malloc_atomic(64);
        for (int word = 0; word < 8; word++)
            filled[index][word] = 0x5555555555555555;
    }
    GC_reachable_here(target);
    target = NULL;
    collect();
    int changed = 0;
    for (int index = 0; index < 20000; index++)
        for (int word = 0; word < 8; word++)
            changed += filled[index][word] != 0x5555555555555555;
    CHECK_EQUAL(changed, 0);
}

/* The one-argument form: the word is cleared when its own object is about to be finalized. */
static int self_cleared, self_finalized;
static void look(void *object, void *data)
{
    (void)data;
    self_finalized++;
    self_cleared += ((void **)object)[1] == NULL;
}
static APART void make_self_linked(void)
{
    for (int index = 0; index < MANY; index++) {
        void **object = GC_malloc(32);
        object[1] = (void *)-2L;
        CHECK_EQUAL(GC_register_disappearing_link(&object[1]), GC_SUCCESS);
        GC_register_finalizer_no_order(object, look, NULL, NULL, NULL);
    }
}

/* There is no word to clear: the program ends at the call, where with libgc it would when the
   object dies. */
static void null_link(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(2);
        GC_general_register_disappearing_link(NULL, GC_malloc(32));
        _exit(0);
    }
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    GC_INIT();
    if (on_neap())
        null_link();
    hidden_pointers();
    short_and_long();
    codes();
    dangling();
    make_self_linked();
    collect();
    CHECK_NEARLY_ALL(self_finalized);
    CHECK_EQUAL(self_cleared, self_finalized);
    return finish();
}
