/* A program that allocates a little and ends does without what cycles need: no watch is open before
   the first one, and few pages are touched. `start asked`: with NEAP_WATCH=pagemap it is open at
   once, so that a refusal is told where the program starts. */
#include "check.h"
#include <dirent.h>
#include <sys/resource.h>

/* Of the pages that start-up and a thousand objects touch; 38 on x86-64. */
enum { MOST_FAULTS = 80 };

/* Whether the process has a descriptor open that only a watch needs. */
static int watches(void)
{
    int found = 0;
    DIR *open_files = opendir("/proc/self/fd");
    CHECK(open_files != NULL);
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        char link[300], target[300] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        found += readlink(link, target, sizeof target - 1) > 0 && strstr(target, "userfaultfd");
    }
    closedir(open_files);
    return found;
}

static long faults(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

int main(int argc, char **argv)
{
    int asked = argc > 1 && strcmp(argv[1], "asked") == 0;
    long before = faults();
    neap_init();
    for (int i = 0; i < 1000; i++)
        CHECK(neap_alloc(32) != NULL);
    printf("%ld page faults\n", faults() - before);
    CHECK(asked || faults() - before < MOST_FAULTS);
    CHECK(watches() == asked);
    neap_collect();
    CHECK(watches() == 1);
    return 0;
}
