/* requests.c: functions of libc's that make threads for the program, while the program collects:
 * their answers come, and what they write into objects is there. Also linked with -static, where
 * each of them is an object of its own in the archive. */
#include "check.h"

#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_int told;

static void tell(union sigval value)
{
    (void)value;
    told++;
}

static const struct timespec *patience(void)
{
    static const struct timespec ten_seconds = {.tv_sec = 10};
    return &ten_seconds;
}

static void await(const struct aiocb *request)
{
    while (aio_error(request) == EINPROGRESS) {
        neap_collect();
        aio_suspend(&request, 1, patience());
    }
}

static void files(void)
{
    char name[] = "/tmp/neap-requests-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    struct aiocb *request = neap_alloc(sizeof *request);
    request->aio_fildes = file;
    request->aio_buf = strcpy(neap_alloc(16), "of the heap");
    request->aio_nbytes = 16;
    CHECK_EQUAL(aio_write(request), 0);
    await(request);
    CHECK_EQUAL(aio_return(request), 16);
    CHECK_EQUAL(aio_fsync(O_SYNC, request), 0);
    await(request);
    CHECK_EQUAL(aio_return(request), 0);

    request->aio_buf = neap_alloc(16);
    CHECK_EQUAL(aio_read(request), 0);
    await(request);
    CHECK_EQUAL(aio_return(request), 16);
    CHECK_EQUAL(strcmp((char *)request->aio_buf, "of the heap"), 0);

    request->aio_buf = neap_alloc(16);
    request->aio_lio_opcode = LIO_READ;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell};
    CHECK_EQUAL(lio_listio(LIO_NOWAIT, &request, 1, &event), 0);
    await(request);
    CHECK_EQUAL(strcmp((char *)request->aio_buf, "of the heap"), 0);
    close(file);
}

static void names(void)
{
    struct gaicb question = {.ar_name = "127.0.0.1"};
    struct gaicb *questions[] = {&question};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell};
    CHECK_EQUAL(getaddrinfo_a(GAI_NOWAIT, questions, 1, &event), 0);
    while (gai_error(&question) == EAI_INPROGRESS)
        neap_collect();
    CHECK_EQUAL(gai_error(&question), 0);
    if (question.ar_result)
        freeaddrinfo(question.ar_result);
}

/* Whether there was a queue to try it with. */
static int queues(void)
{
    char name[64];
    snprintf(name, sizeof name, "/neap-requests-%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (queue == (mqd_t)-1)
        return 0;
    mq_unlink(name);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell};
    CHECK_EQUAL(mq_notify(queue, &event), 0);
    CHECK_EQUAL(mq_send(queue, "message", 8, 0), 0);
    mq_close(queue);
    return 1;
}

int main(void)
{
    files();
    names();
    int expected = 2 + queues();
    for (int i = 0; i < 2000 && told < expected; i++) {
        neap_collect();
        usleep(5000);
    }
    CHECK_EQUAL(told, expected);
    return finish();
}
