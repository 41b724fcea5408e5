/* Functions of libc by all their names: what they read into the collected heap, while collections
   run, is what was in the file, and signals and waits by old names have their effect. */
#include "check.h"
#include <aio.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>

enum { BYTES = 40000 };
static char contents[BYTES];
static int file;
static FILE *stream;

/* What _FORTIFY_SOURCE has programs call. */
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __sigaction(int, const struct sigaction *, struct sigaction *);
__sighandler_t __sysv_signal(int, __sighandler_t);
__sighandler_t bsd_signal(int, __sighandler_t);

static ssize_t by_vector(char *to, int way)
{
    struct iovec parts[2] = {{to, 100}, {to + 100, BYTES - 100}};
    switch (way) {
    case 0:
        return preadv(file, parts, 2, 0);
    case 1:
        return preadv64(file, parts, 2, 0);
    case 2:
        return preadv2(file, parts, 2, 0, 0);
    default:
        return preadv64v2(file, parts, 2, 0, 0);
    }
}

static ssize_t by_request(char *to, int way)
{
    struct aiocb request = {.aio_fildes = file, .aio_buf = to, .aio_nbytes = BYTES};
    struct aiocb64 large = {.aio_fildes = file, .aio_buf = to, .aio_nbytes = BYTES};
    struct aiocb *list[] = {&request};
    struct aiocb64 *large_list[] = {&large};
    request.aio_lio_opcode = large.aio_lio_opcode = LIO_READ;
    switch (way) {
    case 0:
        CHECK_EQUAL(aio_read(&request), 0);
        break;
    case 1:
        CHECK_EQUAL(lio_listio(LIO_WAIT, list, 1, NULL), 0);
        break;
    case 2:
        CHECK_EQUAL(aio_read64(&large), 0);
        break;
    default:
        CHECK_EQUAL(lio_listio64(LIO_WAIT, large_list, 1, NULL), 0);
    }
    if (way >= 2) {
        while (aio_error64(&large) == EINPROGRESS)
            usleep(100);
        return aio_return64(&large);
    }
    while (aio_error(&request) == EINPROGRESS)
        aio_suspend((const struct aiocb *const *)list, 1, NULL);
    return aio_return(&request);
}

static ssize_t by_socket(char *to, int way)
{
    int pair[2];
    ssize_t got;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    CHECK_EQUAL(send(pair[0], contents, BYTES, 0), BYTES);
    if (way == 0)
        got = __recv_chk(pair[1], to, BYTES, BYTES, MSG_WAITALL);
    else
        got = __recvfrom_chk(pair[1], to, BYTES, BYTES, MSG_WAITALL, NULL, NULL);
    close(pair[0]);
    close(pair[1]);
    return got;
}

static ssize_t fill(char *to, int way)
{
    rewind(stream);
    lseek(file, 0, SEEK_SET);
    switch (way) {
    case 0:
        return pread64(file, to, BYTES, 0);
    case 1:
        return __pread64_chk(file, to, BYTES, 0, BYTES);
    case 2:
        return __pread_chk(file, to, BYTES, 0, BYTES);
    case 3:
        return __read_chk(file, to, BYTES, BYTES);
    case 4:
        return (ssize_t)fread_unlocked(to, 1, BYTES, stream);
    case 5:
        return (ssize_t)__fread_chk(to, BYTES, 1, BYTES, stream);
    case 6:
        return (ssize_t)__fread_unlocked_chk(to, BYTES, 1, BYTES, stream);
    case 7:
    case 8:
        return by_socket(to, way - 7);
    case 9:
    case 10:
    case 11:
    case 12:
        return by_vector(to, way - 9);
    default:
        return by_request(to, way - 13);
    }
}

static void check_reads(void)
{
    enum { WAYS = 17, KEPT = 40 };
    char **kept = GC_malloc(KEPT * sizeof(char *));
    for (int turn = 0; turn < 12 * WAYS; turn++) {
        char *to = kept[turn % KEPT];
        if (to == NULL || turn % 3 == 0)
            kept[turn % KEPT] = to = GC_malloc_atomic(BYTES);
        memset(to, 0, BYTES);
        CHECK_EQUAL(fill(to, turn % WAYS), BYTES);
        CHECK(memcmp(to, contents, BYTES) == 0);
        for (int index = 0; index < 500; index++)
            ((void **)GC_malloc(64))[1] = to;
    }
    CHECK(GC_get_gc_no() > 0);
}

static void check_writes(void)
{
    char *from = GC_malloc_atomic(BYTES);
    struct aiocb request = {.aio_fildes = file, .aio_buf = from, .aio_nbytes = BYTES};
    struct aiocb64 large = {.aio_fildes = file, .aio_buf = from, .aio_nbytes = BYTES};
    memcpy(from, contents, BYTES);
    CHECK_EQUAL(pwrite(file, from, BYTES, 0), BYTES);
    CHECK_EQUAL(pwrite64(file, from, BYTES, 0), BYTES);
    CHECK_EQUAL(aio_write(&request), 0);
    while (aio_error(&request) == EINPROGRESS)
        usleep(100);
    CHECK_EQUAL(aio_return(&request), BYTES);
    CHECK_EQUAL(aio_write64(&large), 0);
    while (aio_error64(&large) == EINPROGRESS)
        usleep(100);
    CHECK_EQUAL(aio_return64(&large), BYTES);
    CHECK_EQUAL(aio_fsync(O_SYNC, &request), 0);
    while (aio_error(&request) == EINPROGRESS)
        usleep(100);
    CHECK_EQUAL(aio_fsync64(O_SYNC, &large), 0);
    while (aio_error64(&large) == EINPROGRESS)
        usleep(100);
}

static int handled;
static void handle(int number)
{
    (void)number;
    handled++;
}
static void check_signals(void)
{
    struct sigaction action = {.sa_handler = handle}, old;
    CHECK(bsd_signal(SIGUSR1, handle) == SIG_DFL);
    raise(SIGUSR1);
    CHECK(__sysv_signal(SIGUSR1, handle) == handle);
    raise(SIGUSR1);
    CHECK_EQUAL(__sigaction(SIGUSR1, &action, &old), 0);
    CHECK(old.sa_handler == SIG_DFL); /* the last one was for once */
    raise(SIGUSR1);
    CHECK_EQUAL(handled, 3);
    /* Whether it interrupts is said once for all handlers to come, by signal(3). */
    for (int interrupts = 1; interrupts >= 0; interrupts--) {
        CHECK_EQUAL(siginterrupt(SIGUSR1, interrupts), 0);
        CHECK(signal(SIGUSR1, handle) == handle);
        CHECK_EQUAL(sigaction(SIGUSR1, NULL, &old), 0);
        CHECK(((old.sa_flags & SA_RESTART) == 0) == interrupts);
    }
    CHECK_EQUAL(siginterrupt(-1, 1), -1);
    /* The kernel's own flags: stops of the library may use this one, and interrupt nothing. */
    unsigned long kept[4] = {0};
    CHECK_EQUAL(siginterrupt(SIGURG, 1), 0);
    CHECK_EQUAL(syscall(SYS_rt_sigaction, SIGURG, NULL, kept, 8), 0);
    CHECK(!on_neap() || kept[0] == (unsigned long)SIG_DFL || (kept[1] & SA_RESTART) != 0);
}

static mtx_t lock;
static cnd_t changed;
static int ready;
static int announce(void *data)
{
    (void)data;
    GC_gcollect();
    mtx_lock(&lock);
    ready = 1;
    cnd_signal(&changed);
    mtx_unlock(&lock);
    return 0;
}
static void *announcer(void *data)
{
    announce(data);
    return NULL;
}
static void check_wait(void)
{
    pthread_t thread;
    mtx_init(&lock, mtx_plain);
    cnd_init(&changed);
    pthread_create(&thread, NULL, announcer, NULL);
    mtx_lock(&lock);
    while (!ready)
        cnd_wait(&changed, &lock);
    mtx_unlock(&lock);
    pthread_join(thread, NULL);
}

int main(void)
{
    GC_INIT();
    for (int index = 0; index < BYTES; index++)
        contents[index] = (char)(index * 7 + index / 256);
    stream = tmpfile();
    file = fileno(stream);
    check_writes();
    check_reads();
    check_signals();
    check_wait();
    return finish();
}
