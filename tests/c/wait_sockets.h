/* What wait_times.c does with sockets that have a time limit of a second: each function waits for
   what does not come, and gives 0 if the wait ended as it has to. Included once, on threads of the
   test's. */
#ifndef WAIT_SOCKETS_H
#define WAIT_SOCKETS_H
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

/* Sockets with a time limit of their own: of a pair, the one that nothing comes to, or that has no
   room. */
static int silent(void)
{
    int pair[2];
    struct timeval limit = {.tv_sec = 1};
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    CHECK_EQUAL(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    CHECK_EQUAL(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    return pair[0];
}
static int full(void)
{
    static char bytes[4096];
    int socket = silent();
    while (send(socket, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    return socket;
}
static char bytes[4096];
static struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
static int waits_recv(void)
{
    char byte;
    return timed_out(recv(silent(), &byte, 1, 0), EAGAIN);
}
static int waits_read(void)
{
    char byte;
    return timed_out(read(silent(), &byte, 1), EAGAIN);
}
static int waits_readv(void)
{
    char byte;
    struct iovec one = {.iov_base = &byte, .iov_len = 1};
    return timed_out(readv(silent(), &one, 1), EAGAIN);
}
static int waits_recvfrom(void)
{
    char byte;
    return timed_out(recvfrom(silent(), &byte, 1, 0, NULL, NULL), EAGAIN);
}
static int waits_recvmsg(void)
{
    char byte;
    struct iovec one = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    return timed_out(recvmsg(silent(), &message, 0), EAGAIN);
}
static int waits_recvmmsg(void)
{
    char byte;
    struct iovec one = {.iov_base = &byte, .iov_len = 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}};
    return timed_out(recvmmsg(silent(), &message, 1, 0, NULL), EAGAIN);
}
static int waits_send(void) { return timed_out(send(full(), bytes, sizeof bytes, 0), EAGAIN); }
static int waits_sendto(void) { return timed_out(sendto(full(), bytes, sizeof bytes, 0, NULL, 0),
    EAGAIN); }
static int waits_write(void) { return timed_out(write(full(), bytes, sizeof bytes), EAGAIN); }
static int waits_writev(void) { return timed_out(writev(full(), &vector, 1), EAGAIN); }
static int waits_sendmsg(void)
{
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    return timed_out(sendmsg(full(), &message, 0), EAGAIN);
}
static int waits_sendmmsg(void)
{
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}};
    return timed_out(sendmmsg(full(), &message, 1, 0), EAGAIN);
}
/* A socket that listens under a name that no file has. */
static int listener(const char *kind, struct sockaddr_un *address)
{
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 1};
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "neap-wait-times-%s-%d", kind,
        (int)getpid());
    CHECK_EQUAL(bind(made, (struct sockaddr *)address, sizeof *address), 0);
    CHECK_EQUAL(listen(made, 0), 0);
    CHECK_EQUAL(setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return made;
}
static int waits_accept(void)
{
    struct sockaddr_un address;
    return timed_out(accept(listener("accept", &address), NULL, NULL), EAGAIN);
}
static int waits_accept4(void)
{
    struct sockaddr_un address;
    return timed_out(accept4(listener("accept4", &address), NULL, NULL, SOCK_CLOEXEC), EAGAIN);
}
static int waits_connect(void)
{
    struct sockaddr_un address;
    listener("connect", &address);
    struct timeval limit = {.tv_sec = 1};
    for (int i = 0; i < 1; i++)
        CHECK_EQUAL(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address,
            sizeof address), 0);
    int last = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQUAL(setsockopt(last, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    return timed_out(connect(last, (struct sockaddr *)&address, sizeof address), EAGAIN);
}
#endif
