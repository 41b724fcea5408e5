/* Objects that lead to some leaves, and a finalizer that looks whether all is as it was made. For
   tests of both interfaces. */
#ifndef LEAVES_H
#define LEAVES_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { LEAVES = 5 };

struct leaf {
    uint64_t number;
    struct leaf *next;
    uint64_t room[6];
};

struct object {
    uint64_t number;
    struct leaf *first;
    uint64_t room[6];
};

static atomic_long ran, changed;

static void look(void *pointer, void *data)
{
    struct object *object = pointer;
    int leaves = 0;
    (void)data;
    ran++;
    if (object->number == 0x1122334455667788)
        for (struct leaf *leaf = object->first; leaf != NULL && leaf->number == 77; leaves++)
            leaf = leaf->next;
    changed += leaves != LEAVES;
}

/* Fills an object; its leaves come from `allocate`. */
static void fill(struct object *object, void *(*allocate)(size_t))
{
    object->number = 0x1122334455667788;
    for (int leaf = 0; leaf < LEAVES; leaf++) {
        struct leaf *fresh = allocate(sizeof *fresh);
        fresh->number = 77;
        fresh->next = object->first;
        object->first = fresh;
    }
}
#endif
