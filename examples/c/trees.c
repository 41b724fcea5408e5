/* trees.c: builds trees and drops them, beside one that stays. The first program of the tutorial
 * for C: nothing is registered, nothing is freed. */
#include <neap.h>
#include <stdio.h>

struct tree { struct tree *left, *right; };

static struct tree *build(int depth)
{
    struct tree *tree = neap_alloc(sizeof *tree); /* zeroed */
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
    struct tree *kept = build(18);
    long nodes = 0;
    for (int i = 0; i < 2000; i++)
        nodes += count(build(10));
    printf("%ld nodes came and went, %ld are kept\n", nodes, count(kept));
}
