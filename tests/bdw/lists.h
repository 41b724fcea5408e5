/* Lists of numbers that tests make and look at again: on one that lost a cell the numbers are
   wrong. After check.h. */
#pragma once

struct cell { struct cell *next; long value; };

static APART struct cell *list(long length)
{
    struct cell *first = NULL;
    for (long value = 0; value < length; value++) {
        struct cell *cell = GC_malloc(sizeof *cell);
        cell->value = value;
        cell->next = first;
        first = cell;
    }
    return first;
}

/* Whether it is a list of that length. */
static inline int holds(struct cell *cell, long length)
{
    for (; cell; cell = cell->next)
        if (cell->value != --length)
            return 0;
    return length == 0;
}
