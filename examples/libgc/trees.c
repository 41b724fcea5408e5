/* trees.c: builds trees and drops them, beside one that stays, by libgc's interface: runs on libgc
 * and on Neap. */
#include <gc.h>
#include <stdio.h>

struct tree { struct tree *left, *right; };

static struct tree *build(int depth)
{
    struct tree *tree = GC_MALLOC(sizeof *tree);
    if (depth > 0) {
        tree->left = build(depth - 1);
        tree->right = build(depth - 1);
    }
    return tree;
}

static long count(const struct tree *tree)
{
    return tree ? 1 + count(tree->left) + count(tree->right) : 0;
}

int main(void)
{
    GC_INIT();
    struct tree *kept = build(18);
    long nodes = 0;
    for (int i = 0; i < 2000; i++)
        nodes += count(build(10));
    printf("%ld nodes came and went, %ld are kept\n", nodes, count(kept));
}
