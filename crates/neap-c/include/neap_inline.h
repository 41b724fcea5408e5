/* neap_inline.h: neap_alloc and neap_alloc_leaf as inline functions: a bump and a compare, no call,
 * no lock, no atomic read-modify-write. Included by neap.h.
 *
 * A thread has a buffer of free cells for each kind and size class: from `cursor` up to `limit`.
 * Its buffers lie where its own word points: a word at the same offset from the thread pointer in
 * every thread, 0 while the thread is not attached. Invariant: what is computed here of classes,
 * cells and buffers is what the library of the same soname computes; tests/c/layout_matches.c
 * compares them. The number in neap_inline_1 is that of this layout.
 *
 * An object's last byte is followed by one that nobody asked for, so that a pointer there keeps it
 * too (the option `past_end`). A program that needs no such byte is compiled with -DNEAP_PAST_END=0
 * and sets the option to false. What is compiled for the other setting than is in force leaves
 * allocation to calls.
 *
 * Functions are called by any thread, about its own buffers. The library may stop the thread
 * between any two instructions, read its buffers and lower a limit, not below the end of the cell
 * at the cursor: so the cursor is written in one piece, and before anything is stored into the
 * cell. */
#ifndef NEAP_INLINE_H
#define NEAP_INLINE_H

#if defined(__GNUC__) && defined(__x86_64__) && defined(__LP64__) && !defined(NEAP_NO_INLINE)

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that each object gets beyond what is asked for: 1 or 0. */
#ifndef NEAP_PAST_END
#define NEAP_PAST_END 1
#endif

/* The offset of the thread's word. Set by the library; of a word that is always 0 where allocation
   may not be inline. */
#if NEAP_PAST_END
#define NEAP_INLINE_WORD neap_inline_2
#else
#define NEAP_INLINE_WORD neap_inline_1
#endif
extern ptrdiff_t NEAP_INLINE_WORD;

/* What the library shares of a buffer. */
struct neap_buffer {
    uintptr_t cursor;
    uintptr_t limit;
    uint64_t library[2];
};

enum {
    NEAP_INLINE_CLASSES = 80,           /* size classes of a kind */
    NEAP_INLINE_LARGEST = (32 << 10) - NEAP_PAST_END, /* the largest size that has a class */
    /* up to here classes are 8 bytes apart, and only each second one is used with the byte past the
       end; from there on there are eight to each doubling */
    NEAP_INLINE_FINE = 128,
    NEAP_INLINE_UNIT = NEAP_PAST_END ? 16 : 8
};

/* The functions of the library, under names that their inline forms can call. */
void *neap_alloc_call(size_t bytes) __asm__("neap_alloc");
void *neap_alloc_leaf_call(size_t bytes) __asm__("neap_alloc_leaf");

/* Always inlined, and the address is that of the library's function. */
#define NEAP_INLINE                                                                              \
    extern __inline__ __attribute__((__gnu_inline__, __always_inline__, __artificial__))

/* The offset of the last byte that an object of this size has; 0 for none. */
NEAP_INLINE size_t neap_inline_last(size_t bytes)
{
    return NEAP_PAST_END ? bytes : bytes - (bytes != 0);
}

/* Class and cell size of a size from 0 to NEAP_INLINE_LARGEST; both fold to constants where the
   size is one. */
NEAP_INLINE size_t neap_inline_class(size_t bytes)
{
    size_t last = neap_inline_last(bytes);
    unsigned doubling;
    if (last < NEAP_INLINE_FINE)
        return last / NEAP_INLINE_UNIT * (NEAP_INLINE_UNIT / 8) + NEAP_PAST_END;
    doubling = 63u - (unsigned)__builtin_clzl(last);
    return NEAP_INLINE_FINE / 8 + (size_t)(doubling - 7) * 8 + ((last >> (doubling - 3)) & 7);
}

NEAP_INLINE size_t neap_inline_cell(size_t bytes)
{
    size_t last = neap_inline_last(bytes);
    unsigned shift;
    if (last < NEAP_INLINE_FINE)
        return (last | (NEAP_INLINE_UNIT - 1)) + 1;
    shift = 60u - (unsigned)__builtin_clzl(last);
    return ((last >> shift) + 1) << shift;
}

/* The calling thread's buffers, or null. The assembly is volatile because the word changes in calls
   that the compiler does not see. */
NEAP_INLINE struct neap_buffer *neap_inline_buffers(void)
{
    struct neap_buffer *buffers;
    __asm__ volatile("movq %%fs:(%1), %0" : "=r"(buffers)
        : "r"(__atomic_load_n(&NEAP_INLINE_WORD, __ATOMIC_RELAXED)));
    return buffers;
}

/* A cell from the thread's buffer, or what `call` gives where there is none to have without the
   library. */
NEAP_INLINE void *neap_inline_bump(size_t bytes, size_t kind, void *(*call)(size_t))
{
    struct neap_buffer *buffer;
    uintptr_t cursor, end;
    if (__builtin_expect(bytes > NEAP_INLINE_LARGEST, 0))
        return call(bytes);
    buffer = neap_inline_buffers();
    if (__builtin_expect(buffer == 0, 0))
        return call(bytes);
    buffer += kind * NEAP_INLINE_CLASSES + neap_inline_class(bytes);
    cursor = __atomic_load_n(&buffer->cursor, __ATOMIC_RELAXED);
    end = cursor + neap_inline_cell(bytes);
    if (__builtin_expect(end > __atomic_load_n(&buffer->limit, __ATOMIC_RELAXED), 0))
        return call(bytes);
    __atomic_store_n(&buffer->cursor, end, __ATOMIC_RELAXED);
    /* Whoever stops the thread must know the cell as allocated before anything is in it. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return (void *)cursor;
}

NEAP_INLINE void *neap_alloc(size_t bytes)
{
    return neap_inline_bump(bytes, 0 /* NEAP_CONSERVATIVE */, neap_alloc_call);
}

NEAP_INLINE void *neap_alloc_leaf(size_t bytes)
{
    return neap_inline_bump(bytes, 1 /* NEAP_LEAF */, neap_alloc_leaf_call);
}

#undef NEAP_INLINE

#ifdef __cplusplus
}
#endif

#endif
#endif
