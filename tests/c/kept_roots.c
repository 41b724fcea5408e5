/* A registered range, a part of which the program keeps from its children: a child that marks has
   no copy of it, and does not take what it maps there itself for the root. */
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 4 << 20, MIDDLE = BYTES / 2, OBJECTS = 1000, TURNS = 5, MOST_GAPS = 100000 };

static APART void fill(size_t **part)
{
    for (size_t number = 0; number < OBJECTS; number++) {
        part[number] = neap_alloc(sizeof(size_t));
        *part[number] = number;
    }
}

/* The child maps the next piece of memory where its copy of this one has a hole. */
static void fill_gaps_above(char *root)
{
    char *piece = root + 1;
    for (int gaps = 0; piece > root && gaps < MOST_GAPS; gaps++) {
        piece = mmap(NULL, 256 << 10, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(piece != MAP_FAILED);
    }
}

static APART void reuse(void)
{
    for (int i = 0; i < 100000; i++)
        *(volatile size_t *)neap_alloc(sizeof(size_t)) = ~0;
}

int main(void)
{
    size_t kept[] = {256 << 10, 1 << 20, MIDDLE};
    neap_init();
    for (size_t which = 0; which < sizeof kept / sizeof *kept; which++) {
        char *root =
            mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(root != MAP_FAILED);
        CHECK_EQUAL(neap_roots_add(root, root + BYTES), NEAP_OK);
        size_t **part = (size_t **)(root + MIDDLE);
        fill(part);
        CHECK_EQUAL(madvise(part, kept[which], MADV_DONTFORK), 0);
        fill_gaps_above(root);
        size_t wrong = 0;
        for (int turn = 0; turn < TURNS; turn++) {
            clear_stack();
            CHECK(neap_collect());
            reuse();
            for (size_t number = 0; number < OBJECTS; number++)
                wrong += *part[number] != number;
        }
        CHECK_EQUAL(wrong, 0);
        CHECK_EQUAL(neap_roots_remove(root, root + BYTES), NEAP_OK);
    }
    return finish();
}
