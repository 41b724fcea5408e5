/* typed_libgc: what run.sh asks the recording of: 1,000 objects of four words, of which one may be
   a pointer, by a descriptor of gc_typed.h. Usage: typed-libgc. */
#include <gc/gc.h>
#include <gc/gc_typed.h>

#include <stdio.h>

enum { OBJECTS = 1000, WORDS = 4 };

int main(void)
{
    static void **kept[OBJECTS];
    GC_word bitmap = 1 << 2;
    GC_INIT();
    GC_descr descriptor = GC_make_descriptor(&bitmap, WORDS);
    for (int i = 0; i < OBJECTS; i++) {
        kept[i] = GC_malloc_explicitly_typed(WORDS * sizeof(void *), descriptor);
        if (kept[i] == NULL)
            return 1;
        /* Each leads to the one before, by the word that is scanned. */
        kept[i][2] = i > 0 ? (void *)kept[i - 1] : NULL;
    }
    GC_gcollect();
    for (int i = 1; i < OBJECTS; i++)
        if (kept[i][2] != (void *)kept[i - 1])
            return 1;
    puts("ok");
    return 0;
}
