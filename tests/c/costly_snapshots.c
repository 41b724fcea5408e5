/* Keeps so many kibibytes of linked objects and as many mebibytes of other memory as is said, which
   a child that marks has a copy of, and drops 200 MB of objects: NEAP_LOG=cycles says how many
   cycles had a child. With "weak" it reads weak references all the time, of objects that die, so
   that no answer of a child can be used. Usage: costly_snapshots KIB MIB [weak] */
#include "check.h"
#include <sys/mman.h>

struct node {
    struct node *next;
    char rest[56];
};

enum { HANDLES = 64 };

int main(int count, char **arguments)
{
    struct node *volatile list = NULL;
    neap_handle weak[HANDLES] = {0};
    CHECK(count >= 3);
    size_t other = (size_t)atol(arguments[2]) << 20;
    char *memory =
        mmap(NULL, other + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    /* Small pages: the kernel copies an entry for each. */
    madvise(memory, other, MADV_NOHUGEPAGE);
    memset(memory, 1, other);
    for (long bytes = atol(arguments[1]) << 10; bytes > 0; bytes -= sizeof(struct node)) {
        struct node *node = neap_alloc(sizeof *node);
        CHECK(node != NULL);
        node->next = list;
        list = node;
    }
    for (long times = 0; times < (200 << 20) / (long)sizeof(struct node); times++) {
        struct node *node = neap_alloc(sizeof *node);
        CHECK(node != NULL);
        if (count > 3) {
            neap_handle *handle = &weak[times % HANDLES];
            if (*handle != 0) {
                struct node *before = neap_handle_get(*handle);
                CHECK(before == NULL || before->next == NULL);
                CHECK_EQUAL(neap_handle_free(*handle), NEAP_OK);
            }
            CHECK((*handle = neap_handle_alloc(node, NEAP_HANDLE_WEAK)) != 0);
        }
    }
    CHECK(list != NULL && memory[other / 2] == (other > 0));
    return finish();
}
