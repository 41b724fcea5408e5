/* Permanent objects and programs that fork workers: what is frozen outlives collections and is
   scanned, what is not dies as ever, and a child that collects and allocates goes on sharing its
   parent's heap; so does one of a plain fork until it collects. With the argument `on-fork` nothing
   calls neap_prefork(): the option does. */
#include "check.h"

struct node {
    struct node *next;
    struct node *other;
    long value;
    char text[40];
};

static struct node *kept;
enum { LENGTH = 400000 };
static const size_t LIVE_BYTES = (size_t)LENGTH * sizeof(struct node);

static APART struct node *list(long length)
{
    struct node *head = NULL;
    for (long i = 0; i < length; i++) {
        struct node *node = neap_alloc(sizeof *node);
        node->next = head;
        node->value = i;
        snprintf(node->text, sizeof node->text, "node %ld", i);
        head = node;
        if (i % 4 == 0) /* garbage between, so that blocks are partly filled */
            churn(sizeof *node, 1);
    }
    return head;
}

static int is_intact(const struct node *head, long length)
{
    for (long i = length - 1; i >= 0; i--, head = head->next)
        if (head == NULL || head->value != i || (i % 1000 == 0 && atol(head->text + 5) != i))
            return 0;
    return head == NULL;
}

/* Bytes that only this process has. */
static size_t private_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    size_t kib = 0, sum = 0;
    char line[200];
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Private_Clean: %zu", &kib) == 1 ||
            sscanf(line, "Private_Dirty: %zu", &kib) == 1)
            sum += kib;
    fclose(file);
    return sum << 10;
}

/* The watched objects, held until `let_go`. */
static struct node *held[MANY];

static APART void make_watched(int first)
{
    for (int i = 0; i < MANY; i++) {
        held[i] = list(1);
        watch(first + i, held[i]);
    }
}

static APART void let_go(void)
{
    memset(held, 0, sizeof held);
}

static void freezing(void)
{
    make_watched(0);
    CHECK(neap_freeze());
    make_watched(MANY);
    let_go();
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_DEAD(MANY);
    CHECK(neap_unfreeze());
    collect();
    CHECK_DEAD(0);
    CHECK(neap_unfreeze());
}

/* A frozen object keeps what is stored into it afterwards, and lets go of it when it is
   overwritten. */
static void storing(void)
{
    static struct node *frozen[MANY];
    void *large = neap_alloc(1 << 20);
    kept = large;
    for (int i = 0; i < MANY; i++) {
        frozen[i] = neap_alloc(sizeof **frozen);
        frozen[i]->value = i;
    }
    CHECK(neap_freeze());
    /* Cycles that find them leading nowhere: what is stored after that is seen because it was
       written. */
    collect();
    collect();
    for (int i = 0; i < MANY; i++) {
        frozen[i]->other = list(3);
        watch(2 * MANY + i, frozen[i]->other);
    }
    ((struct node **)large)[100000] = list(1000);
    collect();
    churn(sizeof **frozen, 20000);
    collect();
    CHECK_ALL_ALIVE(2 * MANY);
    CHECK(is_intact(((struct node **)large)[100000], 1000));
    for (int i = 0; i < MANY; i++) {
        CHECK(is_intact(frozen[i]->other, 3));
        frozen[i]->other = NULL;
    }
    collect();
    CHECK_DEAD(2 * MANY);
    /* With the world running and marking under way this is a hint. */
    CHECK_EQUAL(neap_free(frozen[0]), NEAP_OK);
    memset(frozen, 0, sizeof frozen);
    kept = NULL;
    CHECK(neap_unfreeze());
}

static void refused(void)
{
    neap_disable();
    CHECK(!neap_freeze());
    CHECK(!neap_prefork());
    neap_enable();
    neap_hold_collections();
    CHECK(!neap_freeze());
    CHECK(!neap_prefork());
    CHECK(!neap_unfreeze());
    neap_release_collections();
}

/* Before the next fork, garbage among what was permanent goes. */
static void again(void)
{
    make_watched(3 * MANY);
    CHECK(neap_prefork());
    let_go();
    collect();
    CHECK_ALL_ALIVE(3 * MANY);
    CHECK(neap_prefork());
    CHECK_DEAD(3 * MANY);
    CHECK(neap_unfreeze());
}

/* In a child: a collection adds next to nothing of its own, and what is allocated takes its own
   pages only. */
static void worker(int depth, int generation)
{
    enum { OWN = 2 << 20 };
    size_t before, collected, allocated;
    /* What has nothing to do with how much is live, a watch and a thread's stack and such, comes
       with the first ones. */
    churn(64, 100);
    CHECK(neap_collect());
    before = private_bytes();
    CHECK(neap_collect());
    collected = private_bytes();
    CHECK(collected - before < LIVE_BYTES / 50 || collected < before);
    struct node *own = list(OWN / sizeof *own);
    allocated = private_bytes();
    /* Further generations may fill gaps that their parents' garbage left since the last time it was
       worth settling. */
    CHECK(allocated < collected + (generation == 1 ? 2 : 2 + 2 * generation) * (size_t)OWN);
    CHECK(is_intact(own, OWN / sizeof *own));
    CHECK(is_intact(kept, LENGTH));
    if (failures != 0)
        fprintf(stderr, "private: %zu before, %zu collected, %zu allocated\n", before, collected,
            allocated);
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            worker(depth - 1, generation + 1);
            _exit(finish());
        }
        CHECK(succeeded(child));
    }
    kept->other = own;
    CHECK(neap_collect());
    CHECK(is_intact(kept->other, OWN / sizeof *own));
}

/* A child of a plain fork leaves the gaps between its parent's objects alone until it collects:
   what it allocates takes little more than that. */
static void gaps(void)
{
    enum { OWN = 1 << 20 };
    kept = list(LENGTH);
    CHECK(neap_collect());
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        neap_disable();
        size_t before = private_bytes();
        struct node *own = list(OWN / sizeof *own);
        size_t after = private_bytes();
        if (after > before + 3 * (size_t)OWN)
            fprintf(stderr, "beside gaps: %zu private, then %zu\n", before, after);
        CHECK(after <= before + 3 * (size_t)OWN);
        neap_enable();
        CHECK(neap_collect());
        CHECK(is_intact(own, OWN / sizeof *own));
        CHECK(is_intact(kept, LENGTH));
        _exit(finish());
    }
    CHECK(succeeded(child));
    kept = NULL;
}

static void workers(int on_fork)
{
    kept = list(LENGTH);
    if (!on_fork)
        CHECK(neap_prefork());
    for (int turn = 0; turn < 4; turn++) {
        size_t inherited = private_bytes();
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            CHECK(inherited > LIVE_BYTES || turn > 0);
            /* Of all that it inherits it has made next to nothing its own by being there. */
            CHECK(private_bytes() < LIVE_BYTES / 20);
            size_t before = private_bytes();
            CHECK(neap_collect());
            size_t after = private_bytes();
            if (after > before + LIVE_BYTES / 50 + (512 << 10))
                fprintf(stderr, "the first collection: %zu private, then %zu\n", before, after);
            CHECK(after <= before + LIVE_BYTES / 50 + (512 << 10));
            worker(turn == 0 ? 2 : 0, 1);
            _exit(finish());
        }
        CHECK(succeeded(child));
        churn(100, 1);
    }
    CHECK(is_intact(kept, LENGTH));
    kept = NULL;
}

int main(int count, char **arguments)
{
    int on_fork = count > 1 && strcmp(arguments[1], "on-fork") == 0;
    alarm(100);
    if (!on_fork) {
        freezing();
        storing();
        refused();
        again();
        gaps();
    }
    workers(on_fork);
    return finish();
}
