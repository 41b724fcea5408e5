/* A mark procedure that gives back memory of its object, as Guile's does for the stacks of threads:
   what was unmapped meanwhile, and is another's, keeps its contents. */
#include "check.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>

#define BYTES ((size_t)64 << 10)

/* An object is {where memory begins that it used, where that ends}; what it gives back it used no
   more. */
static struct GC_ms_entry *give_back(GC_word *object, struct GC_ms_entry *stack,
                                     struct GC_ms_entry *limit, GC_word environment)
{
    (void)limit, (void)environment;
    if (object[0] < object[1])
        madvise((void *)object[0], object[1] - object[0], MADV_DONTNEED);
    object[0] = object[1];
    return stack;
}

static char *map(void *where)
{
    char *memory = mmap(where, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
    CHECK(memory != MAP_FAILED);
    memset(memory, 7, BYTES);
    return memory;
}

static int sevens(const char *memory)
{
    size_t count = 0;
    for (size_t byte = 0; byte < BYTES; byte++)
        count += memory[byte] == 7;
    return count == BYTES;
}

int main(void)
{
    GC_INIT();
    unsigned procedure = GC_new_proc(give_back);
    unsigned kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(procedure, 0), 0, 1);
    static char **object;
    object = GC_generic_malloc(2 * sizeof *object, (int)kind);

    /* What the program has mapped all the time is given back. */
    char *memory = map(NULL);
    object[0] = memory, object[1] = memory + BYTES;
    GC_gcollect();
    CHECK(memory[0] == 0 && memory[BYTES - 1] == 0);
    CHECK(object[0] == object[1]);

    /* What lies where memory of the object's was is not, and the procedure does not hear of it. */
    memset(memory, 7, BYTES);
    object[0] = memory;
    CHECK(munmap(memory, BYTES) == 0);
    map(memory);
    GC_gcollect();
    CHECK(object[0] == object[1]);
    if (on_neap())
        CHECK(sevens(memory));

    /* Nor for a note that many others push out. */
    memset(memory, 7, BYTES);
    object[0] = memory;
    CHECK(munmap(memory, BYTES) == 0);
    for (int other = 0; other < 1000; other++)
        CHECK(munmap(map(NULL), BYTES) == 0);
    map(memory);
    GC_gcollect();
    CHECK(object[0] == object[1]);
    if (on_neap())
        CHECK(sevens(memory));

    /* Nor if it lies just below: where a stack has moved down and its end is not yet moved. */
    collect();
    char *both = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(both + BYTES, BYTES) == 0);
    memset(both, 7, BYTES);
    object[0] = both, object[1] = both + BYTES;
    GC_gcollect();
    CHECK(object[0] == object[1]);
    if (on_neap())
        CHECK(sevens(both));
    CHECK(munmap(both, BYTES) == 0);
    object[0] = object[1] = memory + BYTES;

    /* What others unmap is theirs to give back. */
    CHECK(madvise(memory, BYTES, MADV_DONTNEED) == 0);
    CHECK(memory[0] == 0);

    /* Some collections later the place is the object's again, if it says so. */
    for (int turn = 0; turn < 20; turn++)
        GC_gcollect();
    memset(memory, 7, BYTES);
    object[0] = memory;
    GC_gcollect();
    CHECK(object[0] == object[1]);
    CHECK(memory[0] == 0 && memory[BYTES - 1] == 0);

    /* Refusals are those of the system. */
    errno = 0;
    CHECK(munmap(memory + 1, BYTES) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(madvise(memory + 1, BYTES, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(munmap(memory, BYTES) == 0);
    return finish();
}
