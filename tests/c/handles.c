/* Handles of every kind, ephemerons, domains: what keeps what alive, also with finalizers and while
   other threads read; wrong handles are refused and told. */
#include "check.h"
#include <pthread.h>

static neap_handle handles[MANY];
static int told, told_status;

static void tell(int status, const char *text, void *environment)
{
    (void)environment;
    told++;
    told_status = status;
    CHECK(strlen(text) > 20);
}

static APART void make(int kind, int first)
{
    for (int i = 0; i < MANY; i++) {
        int *object = neap_alloc_leaf_zeroed(40);
        *object = i;
        watch(first + i, object);
        handles[i] = neap_handle_alloc(object, kind);
        CHECK(handles[i] != 0);
        CHECK(neap_handle_get(handles[i]) == object);
        CHECK_EQUAL(neap_handle_kind_of(handles[i]), kind);
    }
}

static APART int not_null(void)
{
    int count = 0;
    for (int i = 0; i < MANY; i++) {
        int *object = neap_handle_get(handles[i]);
        if (object != NULL)
            CHECK_EQUAL(*object, i);
        count += object != NULL;
    }
    clear_stack();
    return count;
}

static APART void free_all(void)
{
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(neap_handle_free(handles[i]), NEAP_OK);
        CHECK_EQUAL(neap_handle_kind_of(handles[i]), 0);
    }
}

static void kinds(void)
{
    for (int kind = NEAP_HANDLE_STRONG; kind <= NEAP_HANDLE_PINNED; kind++) {
        make(kind, 0);
        collect();
        CHECK_ALL_ALIVE(0);
        CHECK_EQUAL(not_null(), MANY);
        free_all();
        collect();
        CHECK_DEAD(0);
    }
    for (int kind = NEAP_HANDLE_WEAK; kind <= NEAP_HANDLE_WEAK_LONG; kind++) {
        make(kind, 0);
        collect();
        churn(40, 10000);
        CHECK_DEAD(0);
        CHECK(not_null() <= STRAY);
        free_all();
    }
}

static void *brought_back[MANY];
static int seen_weak;
static neap_handle short_handles[MANY];

static void bring_back(void *object, void *data)
{
    int number = *(int *)object;
    (void)data;
    seen_weak += neap_handle_get(short_handles[number]) != NULL;
    brought_back[number] = object;
}

static APART void make_finalizable(void)
{
    /* Until their finalizers are set a cycle would take them, also one that is under way. */
    collect();
    neap_disable();
    make(NEAP_HANDLE_WEAK_LONG, 0);
    for (int i = 0; i < MANY; i++) {
        void *object = neap_handle_get(handles[i]);
        short_handles[i] = neap_handle_alloc(object, NEAP_HANDLE_WEAK);
        CHECK_EQUAL(neap_finalizer_set(object, bring_back, NULL, NEAP_ORDER_NONE), NEAP_OK);
    }
    neap_enable();
}

static void resurrection(void)
{
    make_finalizable();
    collect();
    while (neap_finalizers_ready() > 0)
        neap_finalizers_run();
    int back = 0;
    for (int i = 0; i < MANY; i++) {
        back += brought_back[i] != NULL;
        if (brought_back[i] != NULL) {
            CHECK(neap_handle_get(handles[i]) == brought_back[i]);
            CHECK(neap_handle_get(short_handles[i]) == NULL);
        }
    }
    CHECK(back >= MANY - STRAY);
    CHECK_EQUAL(seen_weak, 0);
    memset(brought_back, 0, sizeof brought_back);
    collect();
    CHECK(not_null() <= STRAY);
    free_all();
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(neap_handle_free(short_handles[i]), NEAP_OK);
}

static void *keys[MANY];

/* Values that point back to their keys, which would keep each other alive if the value were held
   strongly. */
static APART void make_ephemerons(int first)
{
    for (int i = 0; i < MANY; i++) {
        void **key = neap_alloc(32), **value = neap_alloc(32);
        value[0] = key;
        keys[i] = key;
        watch(first + i, key);
        watch(first + MANY + i, value);
        handles[i] = neap_ephemeron_alloc(key, value);
        void *read_key;
        CHECK(neap_ephemeron_get(handles[i], &read_key) == value && read_key == key);
        CHECK_EQUAL(neap_handle_kind_of(handles[i]), NEAP_HANDLE_EPHEMERON);
    }
}

static APART void check_ephemerons(void)
{
    for (int i = 0; i < MANY; i++) {
        void *key, **value = neap_ephemeron_get(handles[i], &key);
        CHECK(key == keys[i] && value != NULL && value[0] == key);
    }
    void *value = neap_alloc(16), *other = neap_alloc(16);
    CHECK_EQUAL(neap_ephemeron_set(handles[0], value), NEAP_OK);
    CHECK_EQUAL(neap_ephemeron_compare_and_set(handles[0], other, NULL), NEAP_OCCUPIED);
    CHECK_EQUAL(neap_ephemeron_compare_and_set(handles[0], value, other), NEAP_OK);
    CHECK(neap_ephemeron_get(handles[0], NULL) == other);
}

static void ephemerons(void)
{
    make_ephemerons(0);
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    check_ephemerons();
    memset(keys, 0, sizeof keys);
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);
    int dead = 0;
    for (int i = 0; i < MANY; i++) {
        void *key;
        if (neap_ephemeron_get(handles[i], &key) == NULL) {
            CHECK(key == NULL);
            CHECK_EQUAL(neap_ephemeron_set(handles[i], NULL), NEAP_NOT_FOUND);
            dead++;
        }
        CHECK_EQUAL(neap_ephemeron_free(handles[i]), NEAP_OK);
    }
    CHECK(dead >= MANY - STRAY);
}

static void changes(void)
{
    void *first = neap_alloc(16), *second = neap_alloc(16);
    neap_handle handle = neap_handle_alloc(NULL, NEAP_HANDLE_STRONG);
    CHECK(handle != 0 && neap_handle_get(handle) == NULL);
    CHECK_EQUAL(neap_handle_set(handle, first), NEAP_OK);
    CHECK_EQUAL(neap_handle_compare_and_set(handle, second, NULL), NEAP_OCCUPIED);
    CHECK_EQUAL(neap_handle_compare_and_set(handle, first, second), NEAP_OK);
    CHECK(neap_handle_get(handle) == second);
    CHECK_EQUAL(neap_handle_free(handle), NEAP_OK);
    CHECK_EQUAL(neap_handle_free(0), NEAP_OK);
}

static APART neap_domain fill_domain(void)
{
    neap_domain domain = neap_domain_open();
    CHECK(domain != NEAP_DEFAULT_DOMAIN);
    for (int i = 0; i < MANY; i++) {
        void *object = neap_alloc(40);
        watch(i, object);
        CHECK(neap_handle_alloc_in(domain, object, NEAP_HANDLE_STRONG) != 0);
        handles[i] = neap_handle_alloc_in(domain, neap_alloc(24), NEAP_HANDLE_WEAK);
        CHECK(neap_ephemeron_alloc_in(domain, object, object) != 0);
    }
    return domain;
}

static void domains(void)
{
    neap_domain domain = fill_domain();
    size_t freed = 0;
    collect();
    CHECK_ALL_ALIVE(0);
    CHECK_EQUAL(neap_domain_close(domain, &freed), NEAP_OK);
    CHECK_EQUAL(freed, 3 * MANY);
    collect();
    CHECK_DEAD(0);
    CHECK_EQUAL(neap_handle_kind_of(handles[0]), 0);
    told = 0;
    CHECK_EQUAL(neap_domain_close(domain, NULL), NEAP_NOT_FOUND);
    CHECK_EQUAL(neap_domain_close(NEAP_DEFAULT_DOMAIN, NULL), NEAP_NOT_FOUND);
    CHECK(neap_handle_alloc_in(domain, neap_alloc(16), NEAP_HANDLE_WEAK) == 0 && errno == EINVAL);
    CHECK_EQUAL(told, 3);
}

static void misuse(void)
{
    char inside;
    void *object = neap_alloc(64);
    neap_handle handle = neap_handle_alloc(object, NEAP_HANDLE_WEAK);
    neap_ephemeron pair = neap_ephemeron_alloc(object, object);
    CHECK_EQUAL(neap_handle_free(handle), NEAP_OK);
    const neap_handle wrong[] = {handle, handle ^ 1, 1, UINT64_MAX, (neap_handle)(uintptr_t)object};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        told = 0;
        CHECK(neap_handle_get(wrong[i]) == NULL && errno == EINVAL);
        CHECK_EQUAL(neap_handle_set(wrong[i], object), NEAP_NOT_FOUND);
        CHECK_EQUAL(neap_handle_compare_and_set(wrong[i], NULL, object), NEAP_NOT_FOUND);
        CHECK_EQUAL(neap_handle_free(wrong[i]), NEAP_NOT_FOUND);
        CHECK_EQUAL(neap_handle_kind_of(wrong[i]), 0);
        CHECK_EQUAL(told, 4);
        CHECK_EQUAL(told_status, NEAP_NOT_FOUND);
    }
    told = 0;
    CHECK(neap_handle_alloc(&inside, NEAP_HANDLE_WEAK) == 0 && errno == EINVAL);
    CHECK_EQUAL(told_status, NEAP_NOT_IN_HEAP);
    CHECK(neap_handle_alloc((char *)object + 3, NEAP_HANDLE_WEAK) == 0);
    CHECK_EQUAL(told_status, NEAP_NOT_AN_OBJECT_START);
    CHECK(neap_handle_alloc(object, 0) == 0 &&
        neap_handle_alloc(object, NEAP_HANDLE_EPHEMERON) == 0);
    CHECK(neap_ephemeron_alloc(NULL, object) == 0);
    CHECK_EQUAL(told_status, NEAP_BAD_ARGUMENT);
    CHECK_EQUAL(told, 5);
    CHECK(neap_handle_get(pair) == NULL);
    CHECK_EQUAL(neap_handle_set(pair, object), NEAP_BAD_ARGUMENT);
    CHECK_EQUAL(neap_ephemeron_free(pair), NEAP_OK);
}

/* Threads read weak handles, and give them new objects, while collections come as they like. */
static void *reads(void *argument)
{
    uintptr_t random = (uintptr_t)argument;
    for (int turn = 0; turn < 30000; turn++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int i = (int)(random >> 33) % MANY;
        int *object = neap_handle_get(handles[i]);
        if (object != NULL)
            CHECK_EQUAL(*object, i);
        else {
            object = neap_alloc_leaf_zeroed(8 + 8 * (size_t)(turn % 20));
            *object = i;
            CHECK_EQUAL(neap_handle_set(handles[i], object), NEAP_OK);
        }
        if (turn % 1000 == 0)
            neap_collect();
    }
    clear_stack();
    return argument;
}

static void threads(void)
{
    pthread_t readers[3];
    for (int i = 0; i < MANY; i++)
        handles[i] = neap_handle_alloc(NULL, i % 2 ? NEAP_HANDLE_WEAK : NEAP_HANDLE_WEAK_LONG);
    for (uintptr_t i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&readers[i], NULL, reads, (void *)(i + 1)), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(readers[i], NULL), 0);
    free_all();
}

static void in_child(void)
{
    neap_handle kept = neap_handle_alloc(neap_alloc(16), NEAP_HANDLE_STRONG);
    pid_t child = fork();
    if (child == 0) {
        collect();
        int fine = neap_handle_get(kept) != NULL && neap_handle_free(kept) == NEAP_OK;
        for (int i = 0; i < 2000; i++)
            fine &= neap_handle_alloc(neap_alloc(16), NEAP_HANDLE_WEAK) != 0;
        collect();
        _exit(!fine);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(neap_handle_free(kept), NEAP_OK);
}

int main(void)
{
    CHECK_EQUAL(neap_set_misuse_callback(tell, NULL), NEAP_OK);
    kinds();
    resurrection();
    ephemerons();
    changes();
    domains();
    misuse();
    threads();
    in_child();
    return finish();
}
