/* Options set by the program: before the start and after it, names and values that are wrong, texts
   that last. */
#include "check.h"

int main(void)
{
    const char *text;
    CHECK((text = neap_option_set("no_such_option", "1")) != NULL && strlen(text) > 10);
    CHECK(text == neap_option_set("no_such_option", "2"));
    CHECK(neap_option_set("growth", "much") != NULL);
    CHECK(neap_option_set("growth", "1000") != NULL);
    CHECK(neap_option_set(NULL, "1") != NULL);
    CHECK(neap_option_set("growth", NULL) != NULL);
    CHECK(neap_option_set("past_end", "false") == NULL);
    CHECK(neap_option_set("min_trigger", "1MiB") == NULL);
    CHECK(neap_option_set("growth", "0.5") == NULL);

    /* What lies past the end is another object's now, if anyone's. */
    for (int i = 0; i < 1000; i++) {
        char *object = neap_alloc(24), *leaf = neap_alloc_leaf(64);
        CHECK(neap_base(object + 23) == object && neap_base(leaf + 63) == leaf);
        CHECK(neap_base(object + 24) != object);
        CHECK(neap_base(leaf + 64) != leaf);
    }
    CHECK_EQUAL(neap_good_size(24), 24);
    /* Too late for that one; in time for others. */
    CHECK((text = neap_option_set("past_end", "true")) != NULL && strstr(text, "before") != NULL);
    CHECK(neap_option_set("growth", "2") == NULL);
    neap_statistics before, after;
    neap_statistics_read(&before, sizeof before);
    churn(1000, 10000);
    neap_statistics_read(&after, sizeof after);
    CHECK(after.cycles >= before.cycles + 5); /* 10 MB at 1 MiB each */
    CHECK(neap_option_set("min_trigger", "64MiB") == NULL);
    CHECK(neap_collect());
    neap_statistics_read(&before, sizeof before);
    churn(1000, 10000);
    neap_statistics_read(&after, sizeof after);
    CHECK_EQUAL(after.cycles, before.cycles);
    return finish();
}
