/* Objects whose layout the program tells: a bit for each word that may hold a pointer. */
#ifndef GC_TYPED_H
#define GC_TYPED_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef GC_word *GC_bitmap;
typedef GC_word GC_descr;

#define GC_WORDSZ (8 * sizeof(GC_word))
#define GC_get_bit(bitmap, index) (((bitmap)[(index) / GC_WORDSZ] >> ((index) % GC_WORDSZ)) & 1)
#define GC_set_bit(bitmap, index) \
    ((bitmap)[(index) / GC_WORDSZ] |= (GC_word)1 << ((index) % GC_WORDSZ))
#define GC_WORD_OFFSET(type, field) (offsetof(type, field) / sizeof(GC_word))
#define GC_WORD_LEN(type) (sizeof(type) / sizeof(GC_word))
#define GC_BITMAP_SIZE(type) ((GC_WORD_LEN(type) + GC_WORDSZ - 1) / GC_WORDSZ)

/* The bitmap may go afterwards. Words beyond its end hold no pointers. */
GC_API GC_descr GC_CALL GC_make_descriptor(const GC_word *bitmap, size_t bits);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_explicitly_typed(size_t bytes, GC_descr descriptor);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_explicitly_typed_ignore_off_page(size_t bytes, GC_descr descriptor);
/* An array of elements of the layout. */
GC_API GC_ATTR_MALLOC GC_ATTR_CALLOC_SIZE(1, 2) void *GC_CALL
    GC_calloc_explicitly_typed(size_t count, size_t element_bytes, GC_descr descriptor);
/* The same in two steps, for arrays of which many are made: 1 if it was prepared, 0 if there can be
   no such array. */
struct GC_calloc_typed_descr_s {
    GC_word opaque[8];
};
GC_API int GC_CALL GC_calloc_prepare_explicitly_typed(struct GC_calloc_typed_descr_s *place,
                                                      size_t place_bytes, size_t count,
                                                      size_t element_bytes, GC_descr descriptor);
GC_API GC_ATTR_MALLOC void *GC_CALL
    GC_calloc_do_explicitly_typed(const struct GC_calloc_typed_descr_s *place, size_t place_bytes);

#ifdef GC_DEBUG
#define GC_MALLOC_EXPLICITLY_TYPED(bytes, descriptor) ((void)(descriptor), GC_MALLOC(bytes))
#define GC_MALLOC_EXPLICITLY_TYPED_IGNORE_OFF_PAGE(bytes, descriptor) \
    ((void)(descriptor), GC_MALLOC_IGNORE_OFF_PAGE(bytes))
#define GC_CALLOC_EXPLICITLY_TYPED(count, bytes, descriptor) \
    ((void)(descriptor), GC_MALLOC((count) * (bytes)))
#else
#define GC_MALLOC_EXPLICITLY_TYPED(bytes, descriptor) GC_malloc_explicitly_typed(bytes, descriptor)
#define GC_MALLOC_EXPLICITLY_TYPED_IGNORE_OFF_PAGE(bytes, descriptor) \
    GC_malloc_explicitly_typed_ignore_off_page(bytes, descriptor)
#define GC_CALLOC_EXPLICITLY_TYPED(count, bytes, descriptor) \
    GC_calloc_explicitly_typed(count, bytes, descriptor)
#endif

#ifdef __cplusplus
}
#endif

#endif
