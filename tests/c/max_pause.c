/* Keeps so many kibibytes of linked objects, and drops so many mebibytes of others: for cycles of
   which NEAP_LOG=cycles says whether they stopped the world. Usage: max_pause KIB MIB */
#include "check.h"

struct node {
    struct node *next;
    char rest[56];
};

int main(int count, char **arguments)
{
    struct node *volatile list = NULL;
    CHECK(count == 3);
    for (long bytes = atol(arguments[1]) << 10; bytes > 0; bytes -= sizeof(struct node)) {
        struct node *node = neap_alloc(sizeof *node);
        CHECK(node != NULL);
        node->next = list;
        list = node;
    }
    for (long bytes = atol(arguments[2]) << 20; bytes > 0; bytes -= sizeof(struct node))
        CHECK(neap_alloc(sizeof(struct node)) != NULL);
    CHECK(list != NULL);
    return finish();
}
