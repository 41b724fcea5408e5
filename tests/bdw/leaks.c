/* leak_detector.h: a program that was written for malloc and free, with one leak that is found, by
   the line where it was made, and none other, also where what is freed is kept for a while. */
#define _GNU_SOURCE
#define GC_THREADS
#include <gc/leak_detector.h>
#include "check.h"

enum { LEAK_LINE = __LINE__ + 4 };

static APART void leak(void)
{
    char *lost = malloc(100);
    strcpy(lost, "lost");
}

static APART void keep_to_rules(void)
{
    char *text = strdup("text");
    text = realloc(text, 200);
    CHECK(strcmp(text, "text") == 0);
    free(text);
    int *numbers = calloc(10, sizeof *numbers);
    CHECK_EQUAL(numbers[9], 0);
    free(numbers);
}

static void leak_and_check(void)
{
    leak();
    for (int turn = 0; turn < 3; turn++) {
        clear_stack();
        CHECK_LEAKS();
    }
}

int main(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    keep_to_rules();
    const char *said = capture(2, leak_and_check);
    char place[40];
    snprintf(place, sizeof place, "leaks.c:%d", LEAK_LINE);
    CHECK(strstr(said, place) != NULL);
    CHECK(strstr(said, "leaks.c:") == strstr(said, place));
    CHECK(strstr(said, "unknown place") == NULL);
    return finish();
}
