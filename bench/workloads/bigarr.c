/* bigarr ROUNDS LENGTH [conservative|typed]: arrays of LENGTH pointers, one after the other, each
 * filled with objects of 88 bytes.
 *
 * With 300 and 40,000 these are the twelve million objects of 88 bytes and the 300 arrays of the
 * pattern of this name (whose pointers had 4 bytes, so that its arrays had half the bytes). One
 * array lives while the next is filled. The check: every object holds what was stored in it. */
#include "workload.h"

struct element {
    struct element *neighbour;
    uint64_t numbers[10];
};

static struct workload_type element_type = {sizeof(struct element), 1, 0, false};

/* Fills an array and gives the sum that its elements should have. */
static uint64_t fill(struct element **array, long length, uint64_t seed)
{
    uint64_t sum = 0;
    for (long i = 0; i < length; i++) {
        struct element *element = workload_new(&element_type);
        element->neighbour = i > 0 ? array[i - 1] : NULL;
        for (int j = 0; j < 10; j++) {
            element->numbers[j] = bench_mix(seed + (uint64_t)i * 10 + (uint64_t)j);
            sum += element->numbers[j];
        }
        array[i] = element;
    }
    return sum;
}

static bool holds(struct element **array, long length, uint64_t wanted)
{
    uint64_t sum = 0;
    bool linked = true;
    for (long i = 0; i < length; i++) {
        linked &= array[i]->neighbour == (i > 0 ? array[i - 1] : NULL);
        for (int j = 0; j < 10; j++)
            sum += array[i]->numbers[j];
    }
    return linked && sum == wanted;
}

int main(int argc, char **argv)
{
    long rounds = bench_argument(argc, argv, 1, "ROUNDS", 300, 1, 1000000);
    long length = bench_argument(argc, argv, 2, "LENGTH", 40000, 1, 100000000);
    workload_start(workload_typed_argument(argc, argv, 3));
    struct element **before = NULL;
    uint64_t before_sum = 0;
    bool ok = true;
    for (long round = 0; round < rounds; round++) {
        struct element **array = workload_scanned((size_t)length * sizeof *array + 1);
        uint64_t sum = fill(array, length, (uint64_t)round << 32);
        ok &= before == NULL || holds(before, length, before_sum);
        before = array;
        before_sum = sum;
    }
    ok &= holds(before, length, before_sum);
    printf("{\"program\": \"bigarr\", \"rounds\": %ld, \"length\": %ld", rounds, length);
    workload_print_heap();
    bench_keep(before);
    return workload_finish(ok);
}
