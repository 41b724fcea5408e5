/* kernel_writes WAY TURNS [heap|static|registered]: the kernel writes pointers into objects of the
 * heap, or into static data, or into a registered range, while collections run. Pointers to checked
 * cells lie in pages; a turn sends half of a page's pointers through a pipe, a pair of sockets or a
 * file into another page and clears the places they came from, so that afterwards the only pointers
 * to those cells are what the kernel wrote. A collector that misses such a write loses the cells.
 * WAY is one of read, readv, pread, preadv, recv, recvfrom, recvmsg, recvmmsg, fread, io_uring; or
 * pwrite, write: to the process's memory as a file.
 * Prints one JSON object: turns, how often the kernel refused with EFAULT, cells that were not what
 * they should be, collections. Status 0: none refused, none lost; 3: some refused; 1: some lost; 2:
 * something else; 77: the kernel does not offer io_uring. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gc/gc.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGES = 4096, SLOTS = 4096 / sizeof(void *), HALF = SLOTS / 2,
    BYTES = HALF * sizeof(void *) };

struct cell {
    uintptr_t number, copy, inverse;
    struct cell *itself;
};

static struct cell ***pages;
static struct cell *in_data[PAGES][SLOTS];
/* Which halves of pages hold pointers, and which do not; half h is the (h % 2)th of page h / 2. */
static int full[PAGES / 8], empty[2 * PAGES - PAGES / 8];
static uintptr_t cells;
/* The first so many are kept, the others are garbage: one of these found in a page has taken a lost
   one's place. */
enum { KEPT = PAGES / 8 * HALF };
static int from, to;

static struct cell *new_cell(void)
{
    struct cell *cell = GC_MALLOC(sizeof *cell);
    *cell = (struct cell){++cells, cells, ~cells, cell};
    return cell;
}

static int is_right(struct cell *cell)
{
    return cell->itself == cell && cell->number == cell->copy && cell->number == ~cell->inverse &&
        cell->number - 1 < KEPT;
}

/* One submission, one completion at a time, waited for. */
static struct {
    int descriptor;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
} ring;

static int ring_open(void)
{
    struct io_uring_params parameters = {0};
    ring.descriptor = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring.descriptor < 0)
        return 0;
    size_t submit = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    size_t complete = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    char *sq = mmap(NULL, submit, access, flags, ring.descriptor, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, complete, access, flags, ring.descriptor, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, parameters.sq_entries * sizeof(struct io_uring_sqe), access, flags,
        ring.descriptor, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)ring.entries == MAP_FAILED)
        return 0;
    ring.sq_tail = (unsigned *)(sq + parameters.sq_off.tail);
    ring.sq_mask = (unsigned *)(sq + parameters.sq_off.ring_mask);
    ring.sq_array = (unsigned *)(sq + parameters.sq_off.array);
    ring.cq_head = (unsigned *)(cq + parameters.cq_off.head);
    ring.cq_mask = (unsigned *)(cq + parameters.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(cq + parameters.cq_off.cqes);
    return 1;
}

static ssize_t ring_read(int descriptor, void *buffer, size_t bytes)
{
    unsigned tail = *ring.sq_tail, index = tail & *ring.sq_mask;
    ring.entries[index] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = descriptor,
        .addr = (uintptr_t)buffer, .len = (unsigned)bytes, .off = (uint64_t)-1};
    ring.sq_array[index] = index;
    __atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
    unsigned submit = 1;
    while (syscall(SYS_io_uring_enter, ring.descriptor, submit, 1, IORING_ENTER_GETEVENTS, NULL,
        0) < 0) {
        if (errno != EINTR)
            return -1;
        submit = __atomic_load_n(ring.sq_tail, __ATOMIC_ACQUIRE) == tail + 1 ? 0 : 1;
    }
    unsigned head = *ring.cq_head;
    int result = ring.completions[head & *ring.cq_mask].res;
    __atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
    if (result < 0)
        errno = -result;
    return result < 0 ? -1 : result;
}

static struct cell **half(int number)
{
    return pages[number / 2] + number % 2 * HALF;
}

static struct cell **page_of_slots(int page, char where)
{
    static char *mapped;
    if (where == 's')
        return in_data[page];
    if (where == 'h')
        return GC_MALLOC(SLOTS * sizeof(void *));
    if (mapped == NULL) {
        mapped = mmap(NULL, PAGES * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
            0);
        if (mapped == MAP_FAILED)
            exit(2);
        GC_add_roots(mapped, mapped + PAGES * 4096ul);
    }
    return (struct cell **)(mapped + page * 4096ul);
}

enum way { READ, READV, PREAD, PREADV, RECV, RECVFROM, RECVMSG, RECVMMSG, FREAD, IO_URING, PWRITE,
    WRITE, WAYS };
static const char *const way_names[] = {"read", "readv", "pread", "preadv", "recv", "recvfrom",
    "recvmsg", "recvmmsg", "fread", "io_uring", "pwrite", "write"};
static enum way way;
static int memory;
static FILE *stream;

/* Data that has arrived on the stack goes on to the process's memory by its file. */
static ssize_t by_file(void *buffer, size_t bytes)
{
    char aside[BYTES];
    ssize_t got = read(to, aside, bytes), written = 0;
    if (got <= 0 || (way == WRITE && lseek(memory, (off_t)buffer, SEEK_SET) == -1))
        return -1;
    while (written < got) {
        const char *rest = aside + written;
        size_t left = (size_t)(got - written);
        off_t place = (off_t)((uintptr_t)buffer + (size_t)written);
        ssize_t part = way == WRITE ? write(memory, rest, left)
            : pwrite(memory, rest, left, place);
        if (part <= 0)
            return -1;
        written += part;
    }
    memset(aside, 0, sizeof aside);
    return written;
}

/* In two pieces where the call takes several. What is read by position is asked for from the file's
   beginning each time. */
static ssize_t receive(void *buffer, size_t bytes)
{
    size_t first = bytes / 2;
    struct iovec pieces[] = {{buffer, first}, {(char *)buffer + first, bytes - first}};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = pieces, .msg_iovlen = 2}};
    struct sockaddr_storage sender;
    socklen_t length = sizeof sender;
    switch (way) {
    case READV: return readv(to, pieces, 2);
    case PREAD: return pread(to, buffer, bytes, 0);
    case PREADV: return preadv(to, pieces, 2, 0);
    case RECV: return recv(to, buffer, bytes, 0);
    case RECVFROM: return recvfrom(to, buffer, bytes, 0, (struct sockaddr *)&sender, &length);
    case RECVMSG: return recvmsg(to, &message.msg_hdr, 0);
    case RECVMMSG: return recvmmsg(to, &message, 1, 0, NULL) == 1 ? (ssize_t)message.msg_len : -1;
    case FREAD: {
        size_t got = fread(buffer, 1, bytes, stream);
        return got > 0 || !ferror(stream) ? (ssize_t)got : -1;
    }
    case IO_URING: return ring_read(to, buffer, bytes);
    case PWRITE:
    case WRITE: return by_file(buffer, bytes);
    default: return read(to, buffer, bytes);
    }
}

static int by_position(void)
{
    return way == PREAD || way == PREADV;
}

static uint64_t random_state = 0x5eed;

static unsigned below(unsigned limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % limit;
}

/* Moves half a page of pointers; 0 if the kernel refused, and then nothing has changed. Its frame
   is gone before anything is allocated. */
__attribute__((noinline)) static int move(struct cell **source, struct cell **target)
{
    if ((by_position() ? pwrite(from, source, BYTES, 0) : write(from, source, BYTES)) != BYTES) {
        perror("kernel_writes: sending");
        exit(2);
    }
    size_t got = 0;
    while (got < BYTES) {
        ssize_t part = receive((char *)target + got, BYTES - got);
        if (part <= 0 && errno == EFAULT) {
            /* The collector of the program's process protected the page. What is on its way is
               taken out by way of the stack. */
            static char aside[BYTES];
            while (!by_position() && got < BYTES && (part = read(to, aside, BYTES - got)) > 0)
                got += (size_t)part;
            if (stream != NULL)
                clearerr(stream);
            memset(aside, 0, sizeof aside);
            return 0;
        }
        if (part <= 0) {
            perror("kernel_writes: receiving");
            exit(2);
        }
        got += (size_t)part;
    }
    memset(source, 0, BYTES);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    while (way < WAYS && strcmp(argv[1], way_names[way]) != 0)
        way++;
    if (way == WAYS)
        return 2;
    long turns = atol(argv[2]), refused = 0, lost = 0;
    int ends[2];
    if (way == IO_URING && !ring_open())
        return 77;
    memory = open("/proc/self/mem", O_RDWR);
    if (memory < 0)
        return 2;
    if (by_position())
        ends[0] = ends[1] = memfd_create("pointers", 0);
    else if (way >= RECV && way <= RECVMMSG ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends)
        : pipe(ends))
        return 2;
    to = ends[0];
    from = ends[1];
    /* Without a buffer of its own the kernel fills the program's. */
    if (way == FREAD && ((stream = fdopen(to, "r")) == NULL ||
        setvbuf(stream, NULL, _IONBF, 0) != 0))
        return 2;
    GC_INIT();
    GC_enable_incremental();
    pages = GC_MALLOC(PAGES * sizeof *pages);
    int fulls = 0, empties = 0;
    for (int page = 0; page < PAGES; page++) {
        pages[page] = page_of_slots(page, argc > 3 ? argv[3][0] : 'h');
        for (int half = 2 * page; half <= 2 * page + 1; half++)
            if (half % 16 == 0)
                full[fulls++] = half;
            else
                empty[empties++] = half;
        for (int slot = 0; page % 8 == 0 && slot < HALF; slot++)
            pages[page][slot] = new_cell();
    }
    for (long turn = 0; turn < turns; turn++) {
        unsigned one = below((unsigned)fulls), other = below((unsigned)empties);
        int source = full[one], target = empty[other];
        if (move(half(source), half(target))) {
            full[one] = target;
            empty[other] = source;
        } else
            refused++;
        for (int slot = 0; slot < HALF; slot += 16)
            lost += !is_right(half(full[one])[slot]);
        for (int garbage = 0; garbage < 100; garbage++)
            new_cell();
    }
    long seen = 0;
    for (int page = 0; page < PAGES; page++)
        for (int slot = 0; slot < SLOTS; slot++)
            if (pages[page][slot] != NULL) {
                seen++;
                lost += !is_right(pages[page][slot]);
            }
    lost += seen != KEPT;
    printf("{\"how\": \"%s\", \"where\": \"%s\", \"turns\": %ld, \"refused\": %ld, \"lost\": %ld, "
           "\"collections\": %lu}\n",
           argv[1], argc > 3 ? argv[3] : "heap", turns, refused, lost,
           (unsigned long)GC_get_gc_no());
    return lost != 0 ? 1 : refused != 0 ? 3 : 0;
}
