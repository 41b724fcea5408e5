/* The hard limit: allocation gives null and ENOMEM, or what the callback gives; nothing live is
   lost; room is there again when something was dropped. */
#include "check.h"

static size_t asked;
static int calls;
static char reserve[100];

static void *no_memory(size_t bytes, void *environment)
{
    CHECK(environment == reserve);
    asked = bytes;
    calls++;
    return bytes <= sizeof reserve ? reserve : NULL;
}

static int warnings;
static void warn(const char *text, size_t number, void *environment)
{
    CHECK(environment == &warnings && strstr(text, "no memory") != NULL && number >= 100);
    warnings++;
}

struct node {
    struct node *next;
    long number, room[30];
};

static APART struct node *fill(long *count)
{
    struct node *head = NULL;
    for (;;) {
        struct node *node = neap_alloc(sizeof *node);
        if (node == NULL)
            return head;
        node->next = head;
        node->number = (*count)++;
        head = node;
    }
}

static APART void check_list(struct node *head, long count)
{
    for (; head != NULL; head = head->next) {
        --count;
        if (head->number != count) {
            CHECK(!"contents");
            return;
        }
    }
    CHECK_EQUAL(count, 0);
}

int main(void)
{
    CHECK_EQUAL(neap_set_warning_callback(warn, &warnings), NEAP_OK);
    /* The limit in force at the start does not bound what can be set later. */
    CHECK(neap_option_set("max_heap", "64MiB") == NULL);
    neap_init();
    CHECK(neap_option_set("max_heap", "16MiB") == NULL);
    for (int turn = 0; turn < 3; turn++) {
        long count = 0;
        errno = 0;
        struct node *volatile head = fill(&count);
        CHECK_EQUAL(errno, ENOMEM);
        CHECK(count * (long)sizeof *head > 10 << 20 && count * (long)sizeof *head <= 16 << 20);
        CHECK(neap_alloc(1 << 20) == NULL);
        CHECK(neap_alloc_leaf(32 << 20) == NULL);
        CHECK(neap_realloc(head, 4 << 20) == NULL);
        check_list(head, count);
        neap_statistics statistics;
        neap_statistics_read(&statistics, sizeof statistics);
        CHECK(statistics.peak_bytes <= 16 << 20);

        CHECK_EQUAL(neap_set_out_of_memory_callback(no_memory, reserve), NEAP_OK);
        calls = 0;
        CHECK(neap_alloc_leaf(1 << 20) == NULL);
        CHECK_EQUAL(calls, 1);
        CHECK_EQUAL(asked, 1 << 20);
        void *got = NULL;
        for (int i = 0; i < 1000 && got != (void *)reserve; i++) /* small cells may be left */
            got = neap_alloc_uncollectable(100);
        CHECK(got == (void *)reserve);
        CHECK_EQUAL(asked, 100);
        CHECK_EQUAL(neap_set_out_of_memory_callback(NULL, NULL), NEAP_OK);

        head = NULL;
        clear_stack();
        CHECK(neap_alloc(4 << 20) != NULL);
        for (int i = 0; i < 300000; i++)
            if (neap_alloc(100) == NULL) {
                CHECK(!"room again");
                break;
            }
        neap_collect();
    }
    /* A larger limit counts at once. */
    CHECK(neap_option_set("max_heap", "64MiB") == NULL);
    void *volatile large = neap_alloc(40 << 20);
    CHECK(large != NULL);
    CHECK(warnings >= 3 * 6);
    return finish();
}
