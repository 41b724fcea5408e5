/* Sizes of free lists: small objects come in granules, and a table of lists has one for each number
   of them. */
#ifndef GC_TINY_FL_H
#define GC_TINY_FL_H

#define GC_GRANULE_BYTES 16
#define GC_GRANULE_WORDS 2
#define GC_WORDS_TO_GRANULES(words) ((words) / GC_GRANULE_WORDS)
#define GC_WORDS_TO_WHOLE_GRANULES(words) GC_WORDS_TO_GRANULES((words) + GC_GRANULE_WORDS - 1)
#define GC_RAW_BYTES_FROM_INDEX(granules) ((granules) * GC_GRANULE_BYTES)
/* The table's length: objects below so many granules have a list. */
#define GC_TINY_FREELISTS 25

#endif
