/* The inline allocation of neap_inline.h computes the same classes, cells and buffers as the
   library: for every size of both kinds, what the library hands out comes from the buffer, and
   moves its cursor by the bytes, that the header names; and the inline function hands out the next
   cell of the same buffer. Compiled with and without the byte past the end. */
#include "check.h"

#ifdef NEAP_INLINE_H
static volatile ptrdiff_t *const offset = &NEAP_INLINE_WORD;

static void by_calls(void)
{
    /* In a child with the other setting of the option the inline form must leave everything to the
       library. */
    pid_t child = fork();
    if (child == 0) {
        setenv("NEAP_PAST_END", NEAP_PAST_END ? "0" : "1", 1);
        execl("/proc/self/exe", "layout_matches", "otherwise", (char *)NULL);
        _exit(9);
    }
    CHECK(succeeded(child));
}

int main(int argc, char **argv)
{
    CHECK(neap_inline_buffers() == NULL);
    CHECK(*offset != 0);
    if (argc > 1 && strcmp(argv[1], "otherwise") == 0) {
        for (int i = 0; i < 100; i++) {
            char *object = neap_alloc(24);
            CHECK(neap_inline_buffers() == NULL);
            CHECK((neap_base(object + 24) == object) != NEAP_PAST_END);
        }
        return finish();
    }
    by_calls();
    CHECK(NEAP_PAST_END || neap_option_set("past_end", "no") == NULL);
    neap_init();
    CHECK(neap_inline_buffers() != NULL);
    CHECK_EQUAL(sizeof(struct neap_buffer), 32);
    void *(*volatile call[])(size_t) = {neap_alloc, neap_alloc_leaf};
    for (size_t bytes = 0; bytes <= NEAP_INLINE_LARGEST; bytes++)
        for (int kind = NEAP_CONSERVATIVE; kind <= NEAP_LEAF; kind++) {
            size_t cell = neap_inline_cell(bytes);
            struct neap_buffer *buffer = neap_inline_buffers() + kind * NEAP_INLINE_CLASSES
                + neap_inline_class(bytes);
            uintptr_t first = (uintptr_t)call[kind](bytes);
            if (cell != neap_usable_size((void *)first) || cell != neap_good_size(bytes) ||
                buffer->cursor != first + cell ||
                buffer->limit < buffer->cursor) {
                fprintf(stderr,
                    "%zu bytes, kind %d: class %zu, cell %zu differ from the library's %zu\n",
                    bytes, kind,
                        neap_inline_class(bytes), cell, neap_usable_size((void *)first));
                CHECK(!"same class and cell");
                return 1;
            }
            if (buffer->limit - buffer->cursor >= cell) {
                uintptr_t next = (uintptr_t)(kind == NEAP_LEAF ? neap_alloc_leaf(bytes)
                    : neap_alloc(bytes));
                CHECK_EQUAL(next, first + cell);
                CHECK_EQUAL(buffer->cursor, next + cell);
            }
            CHECK(neap_inline_class(bytes) < NEAP_INLINE_CLASSES);
        }
    /* One more byte is no class's: the library alone. */
    void *large = neap_alloc(NEAP_INLINE_LARGEST + 1);
    CHECK(neap_usable_size(large) > NEAP_INLINE_LARGEST);
    return finish();
}
#else
#error "this machine has no inline allocation to test: skip it in run.sh"
#endif
