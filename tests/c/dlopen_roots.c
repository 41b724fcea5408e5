/* The data of a library opened with dlopen as the only reference, and its thread-local storage,
   also while the first thread is on a stack that nobody declared; after dlclose they keep nothing
   and do no harm. Usage: dlopen_roots PLUGIN */
#include "check.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>

static ucontext_t outside, inside;
/* The program's own, which lies elsewhere. */
static __thread void *local[MANY];

static APART void collect_elsewhere(void)
{
    enum { BYTES = 256 << 10 };
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *stack = mmap(NULL, BYTES, protection, flags, -1, 0);
    CHECK(stack != MAP_FAILED);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = BYTES;
    inside.uc_link = &outside;
    makecontext(&inside, collect, 0);
    CHECK_EQUAL(swapcontext(&outside, &inside), 0);
    CHECK_EQUAL(munmap(stack, BYTES), 0);
}

static APART void fill(void **place, int first)
{
    CHECK(place != NULL);
    for (int i = 0; i < MANY; i++) {
        place[i] = neap_alloc(40);
        watch(first + i, place[i]);
    }
}

static APART void use(void *library)
{
    void **(*thread_local_of)(void) = (void **(*)(void))dlsym(library, "plugin_thread_local");
    fill(dlsym(library, "plugin_data"), 0);
    fill(dlsym(library, "plugin_zeroed"), MANY);
    fill(thread_local_of(), 2 * MANY);
    fill(local, 3 * MANY);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    collect();
    void *library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    use(library);
    collect();
    churn(40, 20000);
    for (int first = 0; first <= 3 * MANY; first += MANY)
        CHECK_ALL_ALIVE(first);
    collect_elsewhere();
    churn(40, 20000);
    for (int first = 0; first <= 3 * MANY; first += MANY)
        CHECK_ALL_ALIVE(first);
    CHECK_EQUAL(dlclose(library), 0);
    library = NULL;
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);
    return finish();
}
