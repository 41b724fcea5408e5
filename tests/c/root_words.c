/* Many roots that lead to few objects: the memory that a collection takes besides does not grow
   with them. What the roots hold stays, and what only an object of theirs holds. */
#include "check.h"
#include <sys/mman.h>

enum { OBJECTS = 1 << 10 };
static const size_t BYTES = 128 << 20, MOST_BYTES = 32 << 20;

/* The most memory that the process had at once. */
static size_t peak_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    size_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmHWM: %zu", &kib);
    if (file != NULL)
        fclose(file);
    return kib << 10;
}

int main(void)
{
    size_t slots = BYTES / sizeof(void *);
    void ***roots =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(roots != MAP_FAILED);
    CHECK_EQUAL(neap_roots_add(roots, (char *)roots + BYTES), NEAP_OK);
    for (size_t slot = 0; slot < OBJECTS; slot++) {
        roots[slot] = neap_alloc(sizeof(void *));
        *roots[slot] = neap_alloc(sizeof(size_t));
        *(size_t *)*roots[slot] = slot;
    }
    for (size_t slot = OBJECTS; slot < slots; slot++)
        roots[slot] = roots[slot % OBJECTS];
    size_t before = peak_bytes();
    for (int turn = 0; turn < 3; turn++)
        CHECK(neap_collect());
    size_t more = peak_bytes() - before;
    fprintf(stderr, "%zu KiB more\n", more >> 10);
    CHECK(more < MOST_BYTES);
    for (size_t slot = 0; slot < slots; slot++)
        CHECK_EQUAL(*(size_t *)*roots[slot], slot % OBJECTS);
    return finish();
}
