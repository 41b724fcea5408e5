/* A trace function that names objects from memory which is neither heap nor root, as interpreters
   do for stacks of their own: the objects are changed all the time while cycles run beside the
   program, and nothing but the function knows them. TEST_TWICE: the function has to be called in
   the middle of cycles too. */
#include "check.h"
#include <sys/mman.h>
#include <time.h>

enum { SLOTS = 512, BYTES = 64, SECONDS = 3 };

struct object {
    uint64_t number, check;
    char rest[BYTES - 16];
};

static struct object **slots;
/* What number each slot's object has: whoever got its memory has another. */
static uint64_t numbers[SLOTS];
static long calls;

static uint64_t check_of(uint64_t number)
{
    return (number ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
}

static void trace(void *object, size_t bytes, void *environment, neap_tracer *tracer)
{
    (void)object, (void)bytes, (void)environment;
    calls++;
    neap_trace_range(tracer, slots, slots + SLOTS);
}

static void *APART make(uint64_t number)
{
    struct object *made = (struct object *)neap_alloc_leaf(BYTES);
    made->number = number;
    made->check = check_of(number);
    return made;
}

/* Enough to mark that a cycle has a middle. */
static void **APART ballast(void)
{
    void **list = NULL;
    for (int i = 0; i < 300000; i++) {
        void **node = (void **)neap_alloc(40);
        node[0] = list;
        list = node;
    }
    return list;
}

static void *keeper, **kept;

int main(void)
{
    slots = mmap(NULL, SLOTS * sizeof *slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
        -1, 0);
    CHECK(slots != MAP_FAILED);
    keeper = neap_alloc_typed(BYTES, neap_layout_function(trace, NULL));
    kept = ballast();
    uint64_t number = 0, wrong = 0, random = 0x5eed;
    time_t end = time(NULL) + SECONDS;
    do {
        for (int turn = 0; turn < 1000; turn++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            int index = (random >> 33) % SLOTS;
            struct object *object = slots[index];
            wrong += object != NULL
                && (object->number != numbers[index] || object->check != check_of(object->number));
            slots[index] = make(++number);
            numbers[index] = number;
            /* Garbage, so that there are cycles, and so that a cell that was taken back is used
               again. */
            for (int garbage = 0; garbage < 4; garbage++)
                make(0);
        }
    } while (time(NULL) < end);
    CHECK_EQUAL(wrong, 0);
    CHECK(keeper != NULL && kept != NULL);
    neap_statistics now;
    neap_statistics_read(&now, sizeof now);
    CHECK(number > 100000 && now.cycles > 3);
    if (getenv("TEST_TWICE") != NULL) {
        CHECK((uint64_t)calls >= now.cycles * 3 / 2);
        if (failures != 0)
            fprintf(stderr, "%ld calls in %llu cycles\n", calls, (unsigned long long)now.cycles);
    }
    return finish();
}
