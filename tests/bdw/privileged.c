/* A program that runs with more rights than its user has: nothing in the environment steers it. */
#include "check.h"
#include <unistd.h>

int main(void) {
    CHECK(getuid() != geteuid());
    CHECK(getenv("GC_DONT_GC") != NULL);
    GC_INIT();
    CHECK(!GC_is_disabled());
    return finish();
}
