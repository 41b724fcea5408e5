/* Positions in cords. A position belongs to one thread; it lies wherever the program has it, but
   must not be copied while its piece of text is in itself. */
#include "cord_node.h"
#undef CORD_pos_fetch
#undef CORD_next
#undef CORD_prev
#undef CORD_pos_to_index
#undef CORD_pos_to_cord
#undef CORD_pos_valid

/* Where the leaf ends that the path leads to. */
static size_t leaf_end(const struct CORD_Pos *at)
{
    const struct CORD_pe *leaf = &at->path[at->path_len];
    return leaf->pe_start_pos + CORD_len(leaf->pe_cord);
}

/* From the path's last tree, which has the position, down to a leaf. */
static void descend(struct CORD_Pos *at)
{
    const struct CORD_pe *last = &at->path[at->path_len];
    while (is_concatenation(last->pe_cord)) {
        const struct node *node = node_of(last->pe_cord);
        struct CORD_pe *next = &at->path[++at->path_len];
        size_t middle = last->pe_start_pos + node->of.both.left_length;
        next->pe_cord = at->cur_pos < middle ? node->of.both.left : node->of.both.right;
        next->pe_start_pos = at->cur_pos < middle ? last->pe_start_pos : middle;
        last = next;
    }
    if (is_string(last->pe_cord)) {
        at->cur_leaf = last->pe_cord;
        at->cur_start = last->pe_start_pos;
        at->cur_end = leaf_end(at);
    } else {
        at->cur_end = 0;
    }
}

void CORD_set_pos(CORD_pos position, CORD cord, size_t index)
{
    struct CORD_Pos *at = position;
    at->path[0].pe_cord = cord;
    at->path[0].pe_start_pos = 0;
    at->cur_pos = index;
    at->cur_end = 0;
    at->cur_leaf = NULL;
    if (index >= CORD_len(cord)) {
        at->path_len = CORD_POS_INVALID;
        return;
    }
    at->path_len = 0;
    descend(at);
}

/* The next characters of a function come with the one that is asked for. */
char CORD__pos_fetch(CORD_pos position)
{
    struct CORD_Pos *at = position;
    const struct CORD_pe *leaf = &at->path[at->path_len];
    size_t end = leaf_end(at);
    size_t count = 0;
    for (; count < FUNCTION_BUF_SZ && at->cur_pos + count < end; count++)
        at->function_buf[count] =
            call(node_of(leaf->pe_cord), at->cur_pos + count - leaf->pe_start_pos);
    at->cur_leaf = at->function_buf;
    at->cur_start = at->cur_pos;
    at->cur_end = at->cur_pos + count;
    return at->function_buf[0];
}

char CORD_pos_fetch(CORD_pos position)
{
    if (position[0].cur_end == 0)
        return CORD__pos_fetch(position);
    return position[0].cur_leaf[position[0].cur_pos - position[0].cur_start];
}

/* Up to the tree that has the position, and down again. */
static void find_again(struct CORD_Pos *at)
{
    if (at->cur_pos >= CORD_len(at->path[0].pe_cord)) {
        at->path_len = CORD_POS_INVALID;
        at->cur_end = 0;
        return;
    }
    while (at->cur_pos < at->path[at->path_len].pe_start_pos || at->cur_pos >= leaf_end(at))
        at->path_len--;
    descend(at);
}

void CORD__next(CORD_pos position)
{
    struct CORD_Pos *at = position;
    at->cur_pos++;
    if (at->cur_end != 0 && at->cur_pos < at->cur_end)
        return;
    find_again(at);
}

void CORD_next(CORD_pos position)
{
    CORD__next(position);
}

void CORD__prev(CORD_pos position)
{
    struct CORD_Pos *at = position;
    if (at->cur_pos == 0) {
        at->path_len = CORD_POS_INVALID;
        at->cur_end = 0;
        return;
    }
    at->cur_pos--;
    if (at->cur_end != 0 && at->cur_pos >= at->cur_start)
        return;
    find_again(at);
}

void CORD_prev(CORD_pos position)
{
    CORD__prev(position);
}

CORD CORD_pos_to_cord(CORD_pos position)
{
    return position[0].path[0].pe_cord;
}

size_t CORD_pos_to_index(CORD_pos position)
{
    return position[0].cur_pos;
}

int CORD_pos_valid(CORD_pos position)
{
    return position[0].path_len != CORD_POS_INVALID;
}
