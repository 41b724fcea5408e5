/* HOMFLY polynomials of closed braids by libhomfly, which takes all its memory from libgc: each
   crossing doubles the links that stand for the knot. Prints a line for each braid. */
#include <homfly.h>
#include <stdio.h>
#include <stdlib.h>

enum { STRANDS = 6, CROSSINGS = 56, BRAIDS = 60 };

static unsigned long state = 20240229;
static int chosen(int below)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (int)(state >> 40) % below;
}

struct crossing_of {
    int lower, hand;
};

/* Follows one component from a strand on; writes its crossings, and says which strands it was. */
static int follow(const struct crossing_of *braid, int from, char *seen, char *text)
{
    int strand = from, count = 0, length = 0;
    do {
        seen[strand] = 1;
        for (int at = 0; at < CROSSINGS; at++) {
            int is_lower = strand == braid[at].lower;
            if (!is_lower && strand != braid[at].lower + 1)
                continue;
            length += sprintf(text + length, " %d %d", at, is_lower ? braid[at].hand : -braid[at].hand);
            strand += is_lower ? 1 : -1;
            count++;
        }
    } while (strand != from);
    return count;
}

static void print_one(void)
{
    struct crossing_of braid[CROSSINGS];
    static char text[1 << 16], parts[1 << 15], part[1 << 14];
    char seen[STRANDS] = {0};
    int components = 0, used = 0;
    for (int at = 0; at < CROSSINGS; at++)
        braid[at] = (struct crossing_of){chosen(STRANDS - 1), chosen(4) == 0 ? -1 : 1};
    for (int strand = 0; strand < STRANDS; strand++)
        if (!seen[strand]) {
            int count = follow(braid, strand, seen, part);
            used += sprintf(parts + used, " %d%s", count, part);
            components++;
        }
    used = sprintf(text, " %d%s", components, parts);
    for (int at = 0; at < CROSSINGS; at++)
        used += sprintf(text + used, " %d %d", at, braid[at].hand);
    char *polynomial = homfly_str(text);
    if (polynomial == NULL || *polynomial == '\0')
        exit(1);
    puts(polynomial);
}

int main(void)
{
    for (int braid = 0; braid < BRAIDS; braid++)
        print_one();
    return 0;
}
