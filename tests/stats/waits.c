/* waits: asks for some cycles with a tree of 128 MB alive and nothing beside it. tests/stats/run.sh
   counts the pieces in which the thread that waits for them marks. */
#include <neap.h>

enum { DEPTH = 21, CYCLES = 4 };

struct node {
    struct node *left, *right;
    long value[5];
};

static struct node *tree(int depth)
{
    struct node *node = neap_alloc(sizeof *node);
    if (node && depth > 0) {
        node->left = tree(depth - 1);
        node->right = tree(depth - 1);
    }
    return node;
}

int main(void)
{
    neap_disable();
    struct node *root = tree(DEPTH - 1);
    neap_enable();
    for (int i = 0; i < CYCLES; i++)
        if (!neap_collect())
            return 1;
    return root == 0 || root->left == 0;
}
