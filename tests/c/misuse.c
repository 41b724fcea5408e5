/* Wrong use: each is refused with the right status or errno and a message that says what to do, and
   nothing is lost. */
#include "check.h"

static int last_status, told;
static char last_text[400];

static void note(int status, const char *text, void *environment)
{
    CHECK(environment == &told);
    last_status = status;
    told++;
    snprintf(last_text, sizeof last_text, "%s", text);
}

/* That there is no memory for what nobody can have is not what is tested. */
static void warn(const char *text, size_t number, void *environment)
{
    (void)text, (void)number, (void)environment;
}

/* One more message came, with this status and these words. */
static void was_told(int line, int status, const char *words)
{
    static int before;
    if (told != before + 1 || last_status != status || strstr(last_text, words) == NULL) {
        fprintf(stderr, "line %d: %d messages, status %d, text: %s\n", line, told - before,
            last_status, last_text);
        CHECK(!"the right message");
    } else {
        CHECK(1);
    }
    before = told;
}
#define WAS_TOLD(status, words) was_told(__LINE__, status, words)
#define IS_NULL(call, code)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == NULL);                                                                     \
        CHECK_EQUAL(errno, code);                                                                  \
    } while (0)

static void lines_on_standard_error(void)
{
    int ends[2];
    static char text[8000];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        int local;
        dup2(ends[1], 2);
        neap_set_misuse_callback(NULL, NULL);
        for (int i = 0; i < 50; i++)
            neap_free(&local);
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = 0, got;
    while ((got = read(ends[0], text + length, sizeof text - 1 - (size_t)length)) > 0)
        length += got;
    CHECK(succeeded(child));
    int lines = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++)
        CHECK(strncmp(line, "neap: neap_free of 0x", 21) == 0);
    CHECK_EQUAL(lines, 10);
}

int main(void)
{
    volatile size_t zero = 0;
    CHECK_EQUAL(neap_set_misuse_callback(note, &told), NEAP_OK);
    CHECK_EQUAL(neap_set_warning_callback(warn, NULL), NEAP_OK);
    char *object = neap_alloc(64), local[16];
    memset(object, 7, 64);
    void *from_malloc = malloc(64);

    CHECK_EQUAL(neap_free(local), NEAP_NOT_IN_HEAP);
    WAS_TOLD(NEAP_NOT_IN_HEAP, "no address of the collected heap");
    CHECK_EQUAL(neap_free(from_malloc), NEAP_NOT_IN_HEAP);
    WAS_TOLD(NEAP_NOT_IN_HEAP, "malloc");
    CHECK_EQUAL(neap_free(object + 8), NEAP_NOT_AN_OBJECT_START);
    WAS_TOLD(NEAP_NOT_AN_OBJECT_START, "neap_base");
    void *freed = neap_alloc(64);
    CHECK_EQUAL(neap_free(freed), NEAP_OK);
    CHECK_EQUAL(neap_free(freed), NEAP_ALREADY_FREE);
    WAS_TOLD(NEAP_ALREADY_FREE, "freed before");
    void *large = neap_alloc(1000000);
    CHECK_EQUAL(neap_free((char *)large + 500000), NEAP_NOT_AN_OBJECT_START);
    WAS_TOLD(NEAP_NOT_AN_OBJECT_START, "inside the object");
    CHECK_EQUAL(neap_free(large), NEAP_OK);
    CHECK_EQUAL(neap_free(large), NEAP_ALREADY_FREE);
    WAS_TOLD(NEAP_ALREADY_FREE, "no object");

    IS_NULL(neap_realloc(local, 10), EINVAL);
    WAS_TOLD(NEAP_NOT_IN_HEAP, "neap_realloc");
    IS_NULL(neap_realloc(object + 16, 10), EINVAL);
    WAS_TOLD(NEAP_NOT_AN_OBJECT_START, "neap_realloc");
    IS_NULL(neap_realloc(freed, 10), EINVAL);
    WAS_TOLD(NEAP_ALREADY_FREE, "neap_realloc");
    IS_NULL(neap_realloc(object, zero - 1), ENOMEM);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "18446744073709551615 bytes");

    void *(*const functions[])(size_t) = {neap_alloc, neap_alloc_leaf, neap_alloc_leaf_zeroed,
        neap_alloc_uncollectable,
                                          neap_alloc_uncollectable_leaf};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        IS_NULL(functions[i](zero - 1), ENOMEM);
        WAS_TOLD(NEAP_BAD_ARGUMENT, "negative number");
        IS_NULL(functions[i](zero - 100), ENOMEM);
        WAS_TOLD(NEAP_BAD_ARGUMENT, "no object can have");
        IS_NULL(functions[i]((zero - 1) / 2 + 1), ENOMEM);
        WAS_TOLD(NEAP_BAD_ARGUMENT, "no object can have");
        /* told nothing: the size could be meant */
        IS_NULL(functions[i]((zero - 1) / 2 - 4096), ENOMEM);
    }
    IS_NULL(neap_alloc(zero - 4096), ENOMEM);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "no object can have");
    IS_NULL(neap_alloc_leaf(zero - 4096), ENOMEM);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "no object can have");
    IS_NULL(neap_alloc_array((zero - 1) / 2, 3, NEAP_LEAF), ENOMEM);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "larger than any object");
    IS_NULL(neap_alloc_kind(8, 4), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "enum neap_kind");
    IS_NULL(neap_alloc_array(1, 8, -1), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "enum neap_kind");
    for (size_t alignment = 0; alignment <= 24; alignment += 3)
        if (alignment != 0 && (alignment & (alignment - 1)) == 0) {
            CHECK(neap_alloc_aligned(8, alignment, NEAP_LEAF) != NULL);
        } else {
            IS_NULL(neap_alloc_aligned(8, alignment, NEAP_LEAF), EINVAL);
            WAS_TOLD(NEAP_BAD_ARGUMENT, "power of two up to 4096");
        }
    IS_NULL(neap_alloc_aligned(8, 8192, NEAP_LEAF), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "8192");
    IS_NULL(neap_alloc_aligned(zero - 8, 16, NEAP_LEAF), ENOMEM);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "no object can have");

    IS_NULL(neap_alloc_typed(8, NEAP_NO_LAYOUT), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "no layout");
    IS_NULL(neap_alloc_typed(8, 0), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "0 is no layout");
    uint64_t beyond = 8;
    CHECK(neap_layout_bitmap(3, &beyond) == NEAP_NO_LAYOUT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "beyond them");
    CHECK(neap_layout_bitmap(0, &beyond) == NEAP_NO_LAYOUT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "1 to 1048576 words");
    CHECK(neap_layout_bitmap(3, NULL) == NEAP_NO_LAYOUT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "one bit for each");
    CHECK(neap_layout_function(NULL, NULL) == NEAP_NO_LAYOUT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "no function");
    CHECK(neap_layout_prefix(8) == 0);
    IS_NULL(neap_alloc_typed(8, 1), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "1 is no layout");
    IS_NULL(neap_alloc_typed(zero - 8, 0), ENOMEM);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "no object can have");

    CHECK_EQUAL(neap_roots_add(local + 8, local), NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "neap_roots_add");
    CHECK_EQUAL(neap_roots_remove(local + 8, local), NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "neap_roots_remove");
    CHECK_EQUAL(neap_roots_exclude(local + 8, local), NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "neap_roots_exclude");
    IS_NULL(neap_stack_create(NULL, 100), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "neap_stack_create");
    IS_NULL(neap_stack_create(local, 0), EINVAL);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "neap_stack_create");

    static void *link;
    CHECK_EQUAL(neap_finalizer_set(local, NULL, NULL, NEAP_ORDER_NONE), NEAP_NOT_IN_HEAP);
    WAS_TOLD(NEAP_NOT_IN_HEAP, "neap_finalizer_set");
    CHECK_EQUAL(neap_finalizer_set(object, NULL, NULL, 4), NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "enum neap_order");
    CHECK_EQUAL(neap_link_register(&link, object + 1, NEAP_LINK_SHORT), NEAP_NOT_AN_OBJECT_START);
    WAS_TOLD(NEAP_NOT_AN_OBJECT_START, "neap_link_register");
    CHECK_EQUAL(neap_link_register(NULL, object, NEAP_LINK_SHORT), NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "cannot be a link");
    CHECK_EQUAL(neap_link_register((void **)(void *)(object + 1), object, NEAP_LINK_SHORT),
        NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "multiple of 8");
    CHECK_EQUAL(neap_link_register(&link, object, 2), NEAP_BAD_ARGUMENT);
    WAS_TOLD(NEAP_BAD_ARGUMENT, "NEAP_LINK_SHORT");
    CHECK_EQUAL(neap_link_unregister(&link, NEAP_LINK_SHORT), NEAP_NOT_FOUND);

    /* Nothing was lost by all that. */
    for (int i = 0; i < 64; i++)
        CHECK_EQUAL(object[i], 7);
    CHECK(neap_base(object) == object);
    CHECK(neap_collect());
    free(from_malloc);
    lines_on_standard_error();
    for (int status = -1; status <= NEAP_OCCUPIED + 1; status++)
        CHECK(strlen(neap_status_text(status)) > 0);
    return finish();
}
