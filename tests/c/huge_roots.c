/* Roots in a mapping of huge pages, whole and parts that end within one, for which the kernel does
   not say what was written: they are read whole. As root it has the system keep four huge pages
   for the while, if there are none. */
#include "check.h"
#include <sys/mman.h>

static const size_t huge = 2 << 20;

static long kept(long wanted)
{
    long before = -1;
    FILE *file = fopen("/proc/sys/vm/nr_hugepages", wanted < 0 ? "r" : "w");
    if (file == NULL)
        return -1;
    if (wanted >= 0)
        fprintf(file, "%ld\n", wanted);
    else if (fscanf(file, "%ld", &before) != 1)
        before = -1;
    return fclose(file) == 0 ? before : -1;
}

static APART void replace(uintptr_t **root, size_t words, unsigned turn)
{
    for (size_t at = turn % 7; at < words; at += 7) {
        CHECK(root[at] == NULL || (root[at][0] == at && root[at][1] == ~at));
        root[at] = neap_alloc(32);
        root[at][0] = at;
        root[at][1] = ~at;
    }
}

/* The part of the mapping from `start` on is a root, and alone holds objects. */
static void holds(char *mapping, size_t start, size_t bytes)
{
    uintptr_t **root = (uintptr_t **)(mapping + start);
    size_t words = bytes / sizeof *root;
    memset(root, 0, bytes);
    neap_roots_add(root, root + words);
    for (unsigned turn = 0; turn < 70; turn++)
        replace(root, words, turn);
    neap_roots_remove(root, root + words);
}

int main(void)
{
    long before = kept(-1);
    char *mapping;
    alarm(100);
    neap_option_set("max_pause", "0");
    neap_option_set("min_trigger", "1M");
    if (before >= 0 && before < 4)
        kept(4);
    mapping = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (mapping != MAP_FAILED)
        memset(mapping, 0, 2 * huge);
    if (before >= 0 && before < 4)
        kept(before);
    if (mapping == MAP_FAILED) {
        printf("# SKIP the system keeps no huge pages\n");
        return 0;
    }
    holds(mapping, 0, 2 * huge);
    holds(mapping, 0, huge / 2);
    holds(mapping, huge / 2, huge);
    return finish();
}
