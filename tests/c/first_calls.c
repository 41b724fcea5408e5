/* Each function that takes a handle or a domain may be the first that a program calls, also with a
   wrong one: that starts the collector, and what comes after it is allocated and collected. */
#include "check.h"
#include <pthread.h>

static int told;

static void tell(int status, const char *text, void *environment)
{
    (void)status, (void)text, (void)environment;
    told++;
}

static void frees(void) { CHECK(neap_handle_free(1) != NEAP_OK); }
static void sets(void) { CHECK(neap_handle_set(1, NULL) != NEAP_OK); }
static void compares(void) { CHECK(neap_handle_compare_and_set(1, NULL, NULL) != NEAP_OK); }
static void gets(void) { CHECK(neap_handle_get(1) == NULL); }
static void sets_value(void) { CHECK(neap_ephemeron_set(1, NULL) != NEAP_OK); }
static void closes(void) { CHECK(neap_domain_close(7, NULL) != NEAP_OK); }
static void enters(void) { CHECK(neap_monitor_enter(&tell) != NEAP_OK); }

static void (*const first[])(void) = {frees, sets, compares, gets, sets_value, closes, enters};

int main(void)
{
    for (size_t at = 0; at < sizeof first / sizeof *first; at++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            CHECK_EQUAL(neap_set_misuse_callback(tell, NULL), NEAP_OK);
            first[at]();
            CHECK_EQUAL(told, 1);
            long **kept = neap_alloc(64);
            CHECK(kept != NULL && (kept[0] = neap_alloc(64)) != NULL);
            *kept[0] = 7;
            CHECK(neap_collect());
            churn(64, 10000);
            CHECK_EQUAL(*kept[0], 7);
            _exit(finish());
        }
        CHECK(succeeded(child));
    }
    return finish();
}
