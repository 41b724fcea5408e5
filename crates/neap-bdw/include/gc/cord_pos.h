/* Positions in cords, which go from character to character: CORD_FOR is a loop over all of them.
   cord.h includes it. The fields are for the macros. */
#ifndef CORD_POSITION_H
#define CORD_POSITION_H

#include "cord.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The deepest tree that a cord is. */
#define MAX_DEPTH 48
#define FUNCTION_BUF_SZ 8
/* What path_len is of a position before the beginning or past the end. */
#define CORD_POS_INVALID (0x55555555)

/* A tree on the way from the cord to the leaf with the position, and the index it begins at. */
struct CORD_pe {
    CORD pe_cord;
    size_t pe_start_pos;
};

typedef struct CORD_Pos {
    size_t cur_pos;
    int path_len;
    /* The text from cur_start to cur_end, which has the character; none if cur_end is 0. */
    const char *cur_leaf;
    size_t cur_start;
    size_t cur_end;
    struct CORD_pe path[MAX_DEPTH + 1];
    char function_buf[FUNCTION_BUF_SZ];
} CORD_pos[1];

CORD_API CORD CORD_pos_to_cord(CORD_pos position);
CORD_API size_t CORD_pos_to_index(CORD_pos position);
CORD_API char CORD_pos_fetch(CORD_pos position);
/* To the character of the cord by its index. */
CORD_API void CORD_set_pos(CORD_pos position, CORD cord, size_t index);
CORD_API void CORD_next(CORD_pos position);
CORD_API void CORD_prev(CORD_pos position);
CORD_API int CORD_pos_valid(CORD_pos position);

/* What the macros leave to the library. */
CORD_API char CORD__pos_fetch(CORD_pos position);
CORD_API void CORD__next(CORD_pos position);
CORD_API void CORD__prev(CORD_pos position);

#define CORD_FOR(position, cord) \
    for (CORD_set_pos(position, cord, 0); CORD_pos_valid(position); CORD_next(position))
#define CORD_pos_fetch(position) \
    ((position)[0].cur_end == 0 \
         ? CORD__pos_fetch(position) \
         : (position)[0].cur_leaf[(position)[0].cur_pos - (position)[0].cur_start])
#define CORD_next(position) \
    ((position)[0].cur_pos + 1 >= (position)[0].cur_end ? CORD__next(position) \
                                                        : (void)(position)[0].cur_pos++)
#define CORD_prev(position) \
    ((position)[0].cur_end == 0 || (position)[0].cur_pos <= (position)[0].cur_start \
         ? CORD__prev(position) \
         : (void)(position)[0].cur_pos--)
#define CORD_pos_to_index(position) ((position)[0].cur_pos)
#define CORD_pos_to_cord(position) ((position)[0].path[0].pe_cord)
#define CORD_pos_valid(position) ((position)[0].path_len != CORD_POS_INVALID)

/* For those who read text in pieces: how many characters of this piece are left, the position after
   fewer than that, where this one is in memory. */
#define CORD_pos_chars_left(position) \
    ((long)((position)[0].cur_end) - (long)((position)[0].cur_pos))
#define CORD_pos_advance(position, count) \
    ((position)[0].cur_pos += (count) - 1, CORD_next(position))
#define CORD_pos_cur_char_addr(position) \
    ((position)[0].cur_leaf + ((position)[0].cur_pos - (position)[0].cur_start))

#ifdef __cplusplus
}
#endif

#endif
