/* What a collection takes beside permanent objects: a table of small objects of MEGABYTES (without
 * an argument 1024), and collections before neap_freeze(), the first one after it, the ones that
 * follow, and some after one page in a hundred of them was written.
 *
 * usage: frozen [MEGABYTES] Prints milliseconds of each, the median of seven where there are
 * several. Invariant: nothing of the table is ever dropped, and the program ends with an error if
 * it is. One thread. */
#include <neap.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 7 };

struct node {
    struct node *next;
    struct node *other;
    long number;
    long more;
};

static struct node **table;
static long count;

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void load(size_t bytes)
{
    count = (long)(bytes / (sizeof **table + sizeof *table));
    table = neap_alloc((size_t)count * sizeof *table);
    for (long i = 0; i < count && table != NULL; i++) {
        struct node *node = neap_alloc(sizeof *node);
        if (node == NULL)
            exit(1);
        node->number = i;
        node->next = i > 0 ? table[i - 1] : NULL;
        node->other = i > 0 ? table[(i * 40503L) % i] : NULL;
        table[i] = node;
    }
    if (table == NULL)
        exit(1);
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* One node in each hundredth page, which then lead to a new object each. */
static void write_some(void)
{
    for (long i = 0; i < count; i += 100 * 4096 / (long)sizeof **table)
        table[i]->other = neap_alloc(sizeof **table);
}

static void collect(const char *what, int turns, int writing)
{
    double took[TURNS];
    for (int turn = 0; turn < turns; turn++) {
        if (writing)
            write_some();
        double began = milliseconds();
        if (!neap_collect())
            exit(1);
        took[turn] = milliseconds() - began;
    }
    qsort(took, (size_t)turns, sizeof *took, ascending);
    printf("%-28s %8.2f ms\n", what, took[turns / 2]);
}

int main(int arguments, char **words)
{
    size_t megabytes = arguments > 1 ? strtoul(words[1], NULL, 10) : 1024;
    load(megabytes << 20);
    collect("ordinary objects", TURNS, 0);
    if (!neap_freeze())
        return 1;
    collect("frozen, the first", 1, 0);
    collect("frozen", TURNS, 0);
    collect("frozen, 1 % of pages written", TURNS, 1);
    for (long i = 0; i < count; i++)
        if (table[i]->number != i)
            return 1;
    return 0;
}
