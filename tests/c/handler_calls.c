/* Signal handlers that call the library. Usage: handler_calls CASE: installing, at-ease, or one
   after which the process ends with a message: allocates, frees, collects. */
#include "check.h"
#include "steps.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* The cells that a handler could have had without a call, after each instruction where it was not
   what it was before. */
enum { CELL = 48, BYTES = CELL - NEAP_PAST_END, MOST_OFFERS = 1 << 16 };
static struct neap_buffer offers[MOST_OFFERS];
static int offered;

static void step(int number)
{
    struct neap_buffer *buffer = neap_inline_buffers() + neap_inline_class(BYTES);
    struct neap_buffer *last = &offers[offered ? offered - 1 : 0];
    (void)number;
    if (offered == MOST_OFFERS || buffer->cursor + CELL > buffer->limit ||
        (buffer->cursor == last->cursor && buffer->limit == last->limit))
        return;
    offers[offered++] = *buffer;
}

/* While a buffer gets other cells it offers none that are not among them. Between the blocks of one
   class lie others', so cells from an old cursor to a new limit are another's. */
static void installing(void)
{
    struct sigaction action = {0};
    action.sa_handler = step;
    CHECK_EQUAL(sigaction(SIGTRAP, &action, NULL), 0);
    neap_disable();
    for (int i = 0; i < 1000; i++)
        for (int other = 0; other < 20; other++)
            CHECK(neap_alloc(BYTES) && neap_alloc(BYTES + 16) && neap_alloc(BYTES + 32));
    for (int i = 0; i < 40 && offered < MOST_OFFERS; i++) {
        struct neap_buffer *buffer = neap_inline_buffers() + neap_inline_class(BYTES);
        while (buffer->limit > buffer->cursor)
            CHECK(neap_alloc(BYTES));
        for (int other = 0; other < 300; other++)
            CHECK(neap_alloc(BYTES + 16));
        STEPS_BEGIN();
        void *cell = neap_alloc_call(BYTES);
        STEPS_END();
        CHECK(cell != NULL);
    }
    CHECK(offered >= 40);
    int wrong = 0;
    for (int i = 0; i < offered; i++)
        for (uintptr_t cell = offers[i].cursor; cell < offers[i].limit; cell += CELL) {
            neap_object_info info;
            wrong += !neap_object_at((void *)cell, &info) || info.start != (void *)cell;
        }
    CHECK_EQUAL(wrong, 0);
}

static char *made[MANY];
static int entered, handled;

static void makes(int number)
{
    (void)number;
    for (int i = 0; i < MANY; i++) {
        made[i] = neap_alloc(64);
        memset(made[i], i, 64);
    }
    CHECK(neap_collect());
    handled = 1;
}

/* A handler that interrupts nothing of the library's may call it. */
static void at_ease(void)
{
    signal(SIGUSR1, makes);
    raise(SIGUSR1);
    CHECK(handled);
    for (int i = 0; i < MANY; i++)
        CHECK(made[i][0] == i && made[i][63] == i);
}

static const char *wanted;
static void *mine;

static void calls(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    (void)number;
    (void)info;
    interrupted->uc_mcontext.gregs[REG_RAX] = 0;
    if (entered++ > 0)
        return;
    if (strcmp(wanted, "frees") == 0)
        neap_free(mine);
    else if (strcmp(wanted, "collects") == 0)
        neap_collect();
    else
        for (int i = 0; i < 100000; i++)
            CHECK(neap_alloc(72));
    handled = 1;
}

/* The kernel's answer to a system call by which fresh blocks get their memory is a signal: to
   madvise in a critical section, to mprotect with a lock. */
static void inside(const char *what)
{
    unsigned interrupted = strcmp(what, "frees") == 0 ? SYS_mprotect : SYS_madvise;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, interrupted, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct sigaction action = {0};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    wanted = what;
    mine = neap_alloc(1 << 20); /* a small one may be freed without a lock */
    action.sa_sigaction = calls;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    CHECK_EQUAL(sigaction(SIGSYS, &action, NULL), 0);
    CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    for (int i = 0; i < 1000000 && !handled; i++)
        CHECK(neap_alloc(72));
    printf("handled: %d\n", handled);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    neap_init();
    if (strcmp(what, "installing") == 0)
        installing();
    else if (strcmp(what, "at-ease") == 0)
        at_ease();
    else
        inside(what);
    return finish();
}
