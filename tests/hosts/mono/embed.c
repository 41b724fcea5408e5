// A host that embeds Mono: it starts the runtime, calls C# and is called by it, makes objects,
// keeps them by handles or only on its stack, attaches threads of its own that do the same,
// catches exceptions, and ends the runtime. Prints the same whatever collector the runtime has.
// Argument: the library that embed.cs was compiled to.
#include <mono/jit/jit.h>
#include <mono/metadata/assembly.h>
#include <mono/metadata/debug-helpers.h>
#include <mono/metadata/threads.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS 2000
#define THREADS 4

static MonoDomain *domain;
static MonoClass *account;

static void die(const char *what) {
    fprintf(stderr, "embed: %s\n", what);
    exit(1);
}

static MonoMethod *method(const char *description) {
    MonoMethodDesc *named = mono_method_desc_new(description, 0);
    MonoMethod *found = mono_method_desc_search_in_class(named, account);
    mono_method_desc_free(named);
    if (!found) die(description);
    return found;
}

static MonoObject *call(MonoMethod *called, void **arguments) {
    MonoObject *thrown = NULL;
    MonoObject *result = mono_runtime_invoke(called, NULL, arguments, &thrown);
    if (thrown) die("a method threw");
    return result;
}

// By way of C#: with Boehm's collector Mono's mono_gc_collect does not stand being called by C.
static void collect(void) { call(method("Account:Collect()"), NULL); }

static int number_in(MonoObject *boxed) { return *(int *)mono_object_unbox(boxed); }

// Account.Rate: called by C#, allocates, and looks at what it was given.
static MonoString *rate(MonoString *owner, MonoArray *history) {
    char text[64];
    for (int i = 0; i < 20; i++) mono_array_new(domain, mono_get_object_class(), 100);
    char *name = mono_string_to_utf8(owner);
    snprintf(text, sizeof text, "(%s has %d)", name, (int)mono_array_length(history));
    mono_free(name);
    return mono_string_new(domain, text);
}

static MonoArray *make_values(int count, int seed) {
    MonoArray *values = mono_array_new(domain, mono_get_object_class(), count);
    for (int i = 0; i < count; i++) {
        int value = seed + i;
        char text[32];
        snprintf(text, sizeof text, "value %d", value);
        MonoObject *one = i % 2 ? (MonoObject *)mono_string_new(domain, text)
                                : mono_value_box(domain, mono_get_int32_class(), &value);
        mono_array_setref(values, i, one);
    }
    return values;
}

static int sum_of(MonoArray *values) {
    void *arguments[] = {values};
    return number_in(call(method("Account:Sum(object[])"), arguments));
}

static void *work(void *seed) {
    MonoThread *thread = mono_thread_attach(domain);
    intptr_t sum = 0;
    for (int i = 0; i < 50; i++) sum += sum_of(make_values(200, (int)(intptr_t)seed * 1000 + i));
    mono_thread_detach(thread);
    return (void *)sum;
}

static void calls(void) {
    MonoMethod *open = method("Account:Open(string)");
    MonoMethod *deposit = method("Account:Deposit(string,int)");
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "owner %d", i);
        void *arguments[] = {mono_string_new(domain, name)};
        call(open, arguments);
    }
    MonoObject *last = NULL;
    for (int i = 0; i < 5000; i++) {
        char name[32];
        int amount = i % 17;
        snprintf(name, sizeof name, "owner %d", i % 100);
        void *arguments[] = {mono_string_new(domain, name), &amount};
        last = call(deposit, arguments);
    }
    char *text = mono_string_to_utf8((MonoString *)last);
    printf("%s, %d accounts\n", text, number_in(call(method("Account:Count()"), NULL)));
    mono_free(text);

    int amount = -5;
    void *arguments[] = {mono_string_new(domain, "owner 1"), &amount};
    MonoObject *thrown = NULL;
    mono_runtime_invoke(deposit, NULL, arguments, &thrown);
    if (!thrown) die("no exception");
    MonoProperty *message = mono_class_get_property_from_name(mono_get_exception_class(), "Message");
    text = mono_string_to_utf8((MonoString *)mono_property_get_value(message, thrown, NULL, NULL));
    printf("caught: %s\n", text);
    mono_free(text);
}

// Objects that only handles of C keep, in memory that no collector reads.
static void handles(void) {
    uint32_t *strong = malloc(OBJECTS * sizeof *strong), *weak = malloc(OBJECTS * sizeof *weak);
    long expected = 0, sum = 0;
    for (int i = 0; i < OBJECTS; i++) {
        MonoArray *values = make_values(10, i);
        expected += sum_of(values);
        strong[i] = mono_gchandle_new((MonoObject *)values, i % 2);
        weak[i] = mono_gchandle_new_weakref((MonoObject *)values, i % 2);
    }
    collect();
    for (int i = 0; i < OBJECTS; i++) {
        MonoArray *values = (MonoArray *)mono_gchandle_get_target(strong[i]);
        if ((MonoObject *)values != mono_gchandle_get_target(weak[i])) die("a weak handle lost its object");
        sum += sum_of(values);
    }
    printf("kept by handles: %s\n", sum == expected ? "all" : "not all");
    for (int i = 0; i < OBJECTS; i++) mono_gchandle_free(strong[i]);
    // What lay on the stack and in registers is overwritten by the next work.
    for (int i = 0; i < 3; i++) {
        sum_of(make_values(1000, i));
        collect();
    }
    int gone = 0;
    for (int i = 0; i < OBJECTS; i++) {
        gone += mono_gchandle_get_target(weak[i]) == NULL;
        mono_gchandle_free(weak[i]);
    }
    printf("gone without them: %s\n", gone >= OBJECTS * 9 / 10 ? "most" : "too few");
    free(strong);
    free(weak);
}

static void stack_alone(void) {
    MonoArray *volatile kept[32];
    long expected = 0, sum = 0;
    for (int i = 0; i < 32; i++) {
        kept[i] = make_values(500, i);
        expected += sum_of(kept[i]);
    }
    for (int i = 0; i < 200; i++) make_values(1000, i);
    collect();
    for (int i = 0; i < 32; i++) sum += sum_of(kept[i]);
    printf("kept by the stack: %s\n", sum == expected ? "all" : "not all");
}

static void threads(void) {
    pthread_t thread[THREADS];
    long total = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i)) die("no thread");
    for (int i = 0; i < THREADS; i++) {
        void *sum;
        pthread_join(thread[i], &sum);
        total += (intptr_t)sum;
    }
    printf("threads of C: %ld\n", total);
}

int main(int count, char **arguments) {
    if (count != 2) die("want the library");
    domain = mono_jit_init("embed");
    mono_add_internal_call("Account::Rate", (const void *)rate);
    MonoAssembly *assembly = mono_domain_assembly_open(domain, arguments[1]);
    if (!assembly) die("the library cannot be loaded");
    account = mono_class_from_name(mono_assembly_get_image(assembly), "", "Account");
    if (!account) die("no class Account");
    calls();
    handles();
    stack_alone();
    threads();
    fflush(stdout);
    mono_jit_cleanup(domain);
    puts("ended");
    return 0;
}
