/* Marking by names of newer versions: ephemerons, descriptors pushed by hand, gcj, stacks whose
   beginning the program says, blocked regions of two calls. On Neap only. */
#include "newer.h"
#include <signal.h>

/* Functions of the program are called on its own threads: here on the one that allocates. */
static pthread_t first_thread;
static int elsewhere;

static void note_thread(void)
{
    if (!pthread_equal(pthread_self(), first_thread))
        elsewhere++;
}

/* Ephemerons: pairs that the collector cannot see into, of which a value is kept by its key. */
static GC_hidden_pointer *keys, *values;
static int asked, marked_on;
static void **plain;
static GC_word plain_descriptor;

static struct GC_ms_entry *keep_values(struct GC_ms_entry *stack, struct GC_ms_entry *limit)
{
    asked++;
    note_thread();
    /* From the end, so that each call finds one more key of a chain. */
    for (int index = MANY - 1; index >= 0; index--) {
        void *key = GC_REVEAL_POINTER(keys[index]), *value = GC_REVEAL_POINTER(values[index]);
        if (keys[index] && GC_is_marked(key))
            stack = GC_MARK_AND_PUSH(value, stack, limit, (void **)&values[index]);
    }
    if (plain && marked_on == 0)
        stack = GC_ms_push_obj_descr(plain, plain_descriptor, stack, limit);
    if (plain && marked_on == 1)
        stack = GC_ms_push_all(plain, plain + 2, stack, limit);
    if (plain && marked_on == 2)
        GC_push_obj_descr(plain, plain_descriptor);
    return stack;
}

/* A chain: each value is the next key. The first key is given back. */
static APART void *make_chain(struct weak *weak)
{
    void *first = GC_malloc(16), *key = first;
    for (int index = 0; index < MANY; index++) {
        /* Values without pointers keep nothing, but are keys all the same. */
        void *value = index % 2 ? GC_malloc(16) : GC_malloc_atomic(16);
        keys[index] = GC_HIDE_POINTER(key);
        values[index] = GC_HIDE_POINTER(value);
        watch(weak, index, value);
        key = value;
    }
    return first;
}

static void check_ephemerons(void)
{
    static struct weak weak;
    keys = GC_malloc_atomic_uncollectable(MANY * sizeof *keys);
    values = GC_malloc_atomic_uncollectable(MANY * sizeof *values);
    memset(keys, 0, MANY * sizeof *keys);
    CHECK(GC_get_on_mark_stack_empty() == NULL);
    GC_set_on_mark_stack_empty(keep_values);
    CHECK(GC_get_on_mark_stack_empty() == keep_values);
    GC_gcollect();
    CHECK(asked >= 1);
    void *volatile first = make_chain(&weak);
    asked = 0;
    clear_stack();
    GC_gcollect();
    CHECK_EQUAL(count_gone(&weak), 0);
    /* Once for each link of the chain, and at the end. */
    CHECK(asked > MANY);
    /* They are still there where a collection begins by itself. */
    for (int round = 0; round < 100000; round++)
        GC_malloc(256);
    CHECK_EQUAL(count_gone(&weak), 0);
    CHECK(GC_base(first) == first);
    first = NULL;
    clear_stack();
    GC_gcollect();
    int gone = count_gone(&weak);
    CHECK(gone >= MANY - STRAY || gone == 0);
    if (gone == 0) /* a stray word kept the first key, and so all of them */
        fprintf(stderr, "the chain is kept by a stray word\n");
    memset(keys, 0, MANY * sizeof *keys);
    collect();
    CHECK_NEARLY_ALL(count_gone(&weak));
    GC_set_on_mark_stack_empty(NULL);
    asked = 0;
    GC_gcollect();
    CHECK_EQUAL(asked, 0);
}

static APART void fill_plain(struct weak *first, struct weak *second, int index)
{
    void *one = GC_malloc_atomic(16), *two = GC_malloc_atomic(16);
    watch(first, index, one);
    watch(second, index, two);
    void **objects = malloc(2 * sizeof *objects);
    objects[0] = one;
    objects[1] = two;
    plain = objects;
}

static void push_plain(void)
{
    GC_push_obj_descr(plain, plain_descriptor);
}

/* What lies outside the heap is marked as its descriptor says. */
static void check_descriptors(void)
{
    static const GC_word second_word = (GC_word)1 << 62 | GC_DS_BITMAP;
    static struct weak first, second;
    GC_push_other_roots_proc no_roots = GC_get_push_other_roots();
    GC_set_on_mark_stack_empty(keep_values);
    for (int index = 0; index < MANY; index++) {
        free(plain);
        plain = NULL;
        fill_plain(&first, &second, index);
        marked_on = index % 4;
        plain_descriptor = index / 4 % 2 ? 2 * sizeof(void *) | GC_DS_LENGTH : second_word;
        if (marked_on == 3)
            GC_set_push_other_roots(push_plain);
        clear_stack();
        GC_gcollect();
        CHECK(second.hidden[index] != 0);
        if (plain_descriptor != second_word || marked_on == 1)
            CHECK(first.hidden[index] != 0);
        if (marked_on == 3)
            GC_set_push_other_roots(no_roots);
    }
    free(plain);
    plain = NULL;
    GC_set_on_mark_stack_empty(NULL);
    collect();
    CHECK_NEARLY_ALL(count_gone(&first));
    CHECK_NEARLY_ALL(count_gone(&second));
    /* Outside a root procedure there is nothing to add to. */
    void *volatile object = GC_malloc(16);
    GC_push_obj_descr(object, 16);
}

static struct GC_ms_entry *mark_first(GC_word *object, struct GC_ms_entry *stack,
                                      struct GC_ms_entry *limit, GC_word environment)
{
    (void)environment;
    return GC_ms_push_all(object + 1, object + 2, stack, limit);
}

static struct {
    void *nothing;
    GC_word descriptor;
} type = {NULL, (GC_word)1 << 62 | GC_DS_BITMAP};
static struct weak followed, ignored;
static void **volatile gcj_objects[MANY];

static APART void make_gcj(int index)
{
    void **object = GC_local_gcj_malloc(3 * sizeof *object, &type);
    CHECK(object[0] == &type && object[1] == NULL && object[2] == NULL);
    object[1] = GC_malloc_atomic(16);
    object[2] = GC_malloc_atomic(16);
    watch(&followed, index, object[1]);
    watch(&ignored, index, object[2]);
    gcj_objects[index] = object;
}

static void check_gcj(void)
{
    GC_init_gcj_malloc_mp(GC_GCJ_RESERVED_MARK_PROC_INDEX, mark_first, sizeof(void *));
    for (int index = 0; index < MANY; index++)
        make_gcj(index);
    collect();
    CHECK_EQUAL(count_gone(&followed), 0);
    CHECK_NEARLY_ALL(count_gone(&ignored));
}

/* A thread with objects in two frames, of which the corrector lets the outer one be read. */
static struct weak outer, inner;
static void **position_of_outer;
static pthread_t thread_of_frames;
static int frames_ready, frames_over, corrected, others, wrong_position;

static void correct(void **position, void *thread)
{
    note_thread();
    if ((pthread_t)thread != thread_of_frames) {
        others++;
        return;
    }
    corrected++;
    if (*position > (void *)position_of_outer)
        wrong_position++;
    *position = position_of_outer;
}

static APART void fill(void **frame, struct weak *weak, int index)
{
    frame[index] = GC_malloc_atomic(16);
    watch(weak, index, frame[index]);
}

static APART void wait_in_inner_frame(void)
{
    void *frame[MANY];
    for (int index = 0; index < MANY; index++)
        fill(frame, &inner, index);
    clear_stack();
    __atomic_store_n(&frames_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&frames_over, __ATOMIC_ACQUIRE))
        usleep(200);
    __asm__ volatile("" : : "r"(frame) : "memory");
}

static void *stand_in_outer_frame(void *data)
{
    void *frame[MANY];
    position_of_outer = frame;
    thread_of_frames = pthread_self();
    for (int index = 0; index < MANY; index++)
        fill(frame, &outer, index);
    wait_in_inner_frame();
    __asm__ volatile("" : : "r"(frame) : "memory");
    return data;
}

static void check_corrector(void)
{
    pthread_t thread;
    CHECK(GC_get_sp_corrector() == NULL);
    CHECK_EQUAL(pthread_create(&thread, NULL, stand_in_outer_frame, NULL), 0);
    while (!__atomic_load_n(&frames_ready, __ATOMIC_ACQUIRE))
        usleep(200);
    collect();
    CHECK_EQUAL(count_gone(&outer), 0);
    CHECK_EQUAL(count_gone(&inner), 0);
    GC_set_sp_corrector(correct);
    CHECK(GC_get_sp_corrector() == correct);
    collect();
    CHECK(corrected > 0 && others > 0);
    CHECK_EQUAL(wrong_position, 0);
    CHECK_EQUAL(count_gone(&outer), 0);
    CHECK_NEARLY_ALL(count_gone(&inner));
    /* Also where nobody asks for a collection. */
    corrected = 0;
    GC_word number = GC_get_gc_no();
    for (int round = 0; round < 1000000 && GC_get_gc_no() == number; round++)
        GC_malloc(256);
    CHECK(GC_get_gc_no() > number && corrected > 0);
    CHECK_EQUAL(count_gone(&outer), 0);
    /* As far as there is a stack, and no further, whatever the program says. */
    pthread_attr_t attributes;
    size_t bytes;
    void *low;
    CHECK_EQUAL(pthread_getattr_np(thread, &attributes), 0);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    position_of_outer = low;
    collect();
    CHECK_EQUAL(count_gone(&outer), 0);
    position_of_outer = (void **)((char *)low + bytes);
    collect();
    CHECK(count_gone(&outer) >= MANY - STRAY);
    wrong_position = 0;
    GC_set_sp_corrector(NULL);
    corrected = 0;
    GC_gcollect();
    CHECK_EQUAL(corrected, 0);
    __atomic_store_n(&frames_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

/* A blocked region of two calls. */
static struct weak blocked_weak;
static long turns;
static int region_entered, region_over, region_left;

static APART void turn_until_over(void)
{
    while (!__atomic_load_n(&region_over, __ATOMIC_ACQUIRE))
        __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
}

static void *stand_blocked(void *data)
{
    void *frame[MANY];
    for (int index = 0; index < MANY; index++)
        fill(frame, &blocked_weak, index);
    GC_start_blocking();
    __atomic_store_n(&region_entered, 1, __ATOMIC_RELEASE);
    turn_until_over();
    GC_end_blocking();
    __atomic_store_n(&region_left, 1, __ATOMIC_RELEASE);
    for (int index = 0; index < MANY; index++)
        CHECK(GC_base(frame[index]) == frame[index]);
    return data;
}

static int turns_go_on(void)
{
    long before = __atomic_load_n(&turns, __ATOMIC_RELAXED);
    for (int wait = 0; wait < 1000; wait++) {
        usleep(1000);
        if (__atomic_load_n(&turns, __ATOMIC_RELAXED) > before)
            return 1;
    }
    return 0;
}

static void check_blocking(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, stand_blocked, NULL), 0);
    while (!__atomic_load_n(&region_entered, __ATOMIC_ACQUIRE))
        usleep(200);
    collect();
    CHECK_EQUAL(count_gone(&blocked_weak), 0);
    GC_stop_world_external();
    int goes_on = turns_go_on();
    __atomic_store_n(&region_over, 1, __ATOMIC_RELEASE);
    usleep(50000);
    int left = __atomic_load_n(&region_left, __ATOMIC_ACQUIRE);
    GC_start_world_external();
    CHECK(goes_on);
    CHECK_EQUAL(left, 0);
    pthread_join(thread, NULL);
    CHECK_EQUAL(region_left, 1);
    /* Without the other call, each is ignored. */
    GC_end_blocking();
    GC_start_blocking();
    GC_start_blocking();
    GC_end_blocking();
    GC_gcollect();
}

static sem_t region_begun, collected;

/* Called with an object that only a register of the caller's caller names. */
__attribute__((used)) static void tell_and_wait(void)
{
    sem_post(&region_begun);
    while (sem_wait(&collected) != 0)
        ;
}

static APART GC_hidden_pointer make_hidden(struct weak *weak, int index)
{
    void *object = GC_malloc_atomic(16);
    watch(weak, index, object);
    return GC_HIDE_POINTER(object);
}

static void *keep_in_a_register(void *data)
{
    struct weak *weak = data;
    for (int index = 0; index < MANY; index++) {
        GC_hidden_pointer hidden = make_hidden(weak, index);
        clear_stack();
        __asm__ volatile("mov %0, %%r12\n"
                         "mov %%rsp, %%rbx\n"
                         "sub $256, %%rsp\n"
                         "and $-16, %%rsp\n"
                         "not %%r12\n"
                         "call GC_start_blocking@PLT\n"
                         "call tell_and_wait\n"
                         "call GC_end_blocking@PLT\n"
                         "not %%r12\n"
                         "mov %%rbx, %%rsp\n"
                         "mov %%r12, %0\n"
                         : "+m"(hidden)
                         :
                         : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                           "r12", "memory", "cc");
    }
    return NULL;
}

/* A handler has a region of its own inside the one that it interrupts. */
static int handled_regions;

static void blocks_inside(int number)
{
    (void)number;
    GC_start_blocking();
    GC_end_blocking();
    __atomic_add_fetch(&handled_regions, 1, __ATOMIC_RELEASE);
}

static void check_registers(void)
{
    signal(SIGUSR1, blocks_inside);
    static struct weak weak;
    pthread_t thread;
    sem_init(&region_begun, 0, 0);
    sem_init(&collected, 0, 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, keep_in_a_register, &weak), 0);
    for (int index = 0; index < MANY; index++) {
        while (sem_wait(&region_begun) != 0)
            ;
        if (index % 2) {
            int before = __atomic_load_n(&handled_regions, __ATOMIC_ACQUIRE);
            pthread_kill(thread, SIGUSR1);
            while (__atomic_load_n(&handled_regions, __ATOMIC_ACQUIRE) == before)
                usleep(200);
        }
        GC_gcollect();
        CHECK(weak.hidden[index] != 0);
        sem_post(&collected);
    }
    pthread_join(thread, NULL);
    collect();
    CHECK_NEARLY_ALL(count_gone(&weak));
}

int main(void)
{
    static void *volatile ballast;
    first_thread = pthread_self();
    GC_INIT();
    GC_allow_register_threads();
    ballast = make_ballast();
    GC_gcollect();
    check_ephemerons();
    check_descriptors();
    check_gcj();
    check_corrector();
    check_blocking();
    check_registers();
    CHECK_EQUAL(elsewhere, 0);
    CHECK(ballast);
    return finish();
}
