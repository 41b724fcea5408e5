/* How cords are made, for the files of libcord.

   Invariant: a cord is null, a C string that is not empty, or a node, whose first byte is 0. A
   node's length is not 0, no tree is deeper than MAX_DEPTH, and nothing is written to once it is
   made. */
#ifndef NEAP_CORD_NODE_H
#define NEAP_CORD_NODE_H

#define CORD_API extern __attribute__((visibility("default")))
#include "gc/cord.h"
#include "gc/gc.h"
#include <string.h>

enum node_kind { CONCATENATION, FUNCTION };

struct node {
    char zero;
    unsigned char kind;
    unsigned char depth;
    size_t length;
    union {
        struct {
            CORD left, right;
            size_t left_length;
        } both;
        struct {
            CORD_fn function;
            void *data;
            /* What is added to an index. */
            size_t start;
        } called;
    } of;
};

static inline int is_string(CORD cord)
{
    return *cord != '\0';
}

static inline const struct node *node_of(CORD cord)
{
    return (const struct node *)(const void *)cord;
}

static inline int is_concatenation(CORD cord)
{
    return !is_string(cord) && node_of(cord)->kind == CONCATENATION;
}

static inline int depth_of(CORD cord)
{
    return cord == CORD_EMPTY || is_string(cord) ? 0 : node_of(cord)->depth;
}

/* A character of a function's node. */
static inline char call(const struct node *node, size_t index)
{
    return node->of.called.function(node->of.called.start + index, node->of.called.data);
}

/* Ends the program if there is no memory, after CORD_oom_fn. Hidden, as all that is no CORD_*. */
void *cord_allocated(void *memory);

#endif
