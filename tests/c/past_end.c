/* What a compiler does to a loop loses nothing: in the last round gcc keeps only the pointer to the
   next element, which for the last one is the end of the object. */
#include "check.h"

struct element {
    struct element *skip;
    long number;
};
enum { ELEMENTS = 4 };
static struct element *volatile arrays[MANY];
static volatile long sum;
static int at, lost;

static APART void make(void)
{
    for (int index = 0; index < MANY; index++) {
        struct element *array = neap_alloc(ELEMENTS * sizeof *array);
        CHECK(array != NULL);
        /* Between two of them lies one that nobody keeps. */
        CHECK(neap_alloc(ELEMENTS * sizeof *array) != NULL);
        for (int i = 0; i < ELEMENTS; i++)
            array[i] = (struct element){i < ELEMENTS - 1 ? array : NULL, index};
        watch(index, array);
        arrays[index] = array;
    }
}

/* What the loop does with an element. */
static APART void work(void)
{
    clear_stack();
    CHECK(neap_collect());
    lost += watched[at] == NULL;
}

static APART void add_last(struct element *array)
{
    struct element *end = array + ELEMENTS;
    for (struct element *next = array; next < end;) {
        struct element *element = next++;
        if (element->skip)
            continue;
        work();
        sum += element->number;
    }
}

int main(void)
{
    make();
    for (at = 0; at < MANY; at++) {
        struct element *array = arrays[at];
        arrays[at] = NULL;
        add_last(array);
    }
    CHECK_EQUAL(lost, 0);
    CHECK_EQUAL(sum, MANY * (MANY - 1) / 2);
    return finish();
}
