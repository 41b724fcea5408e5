/* A server that loads a table, forks workers and lets them answer lookups: the program that the
 * figures of docs/prefork.md are about. On neap.h, with -DSERVER_LIBGC on libgc's interface, or
 * with -DSERVER_ARENA without a collector: what it loads stays, and what an answer allocates is
 * gone with it, which is the least that a request can cost. server.rb is the same in Ruby.
 *
 * usage: server ENTRIES WORKERS COLLECTIONS [prefork] The parent loads ENTRIES postcodes with
 * addresses, made by a fixed rule, collects COLLECTIONS times, calls neap_prefork() if asked to,
 * and forks WORKERS, which accept on one socket of the loopback interface. A request is a postcode
 * and a newline, the answer the address and a newline; a connection may send many. What answering
 * allocates is garbage at once. It then takes commands on standard input and answers each with a
 * line: `collect` (a full collection in every worker, which then gives free memory back to the
 * system; for each: microseconds to the end of marking, and then to the end of the rest; on libgc's
 * interface, where that is one call, of both, and nothing), `pauses` (the longest pause of each,
 * microseconds), `answers` (microseconds that making an answer took each on average, of a request
 * all but reading and writing), `live` (bytes of the parent's objects as its last collection found
 * them), `fork` (microseconds that a fork of the parent takes, ten times), `quit`. Invariant:
 * parent and workers have one thread of their own. The table is never changed after the fork. Built
 * with -D_GNU_SOURCE. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef SERVER_LIBGC
#include <dlfcn.h>
#include <gc.h>
#define ALLOCATE GC_malloc
#define ALLOCATE_LEAF GC_malloc_atomic
#elif defined(SERVER_ARENA)
static char *arena; /* a worker's; null while the table is loaded */
static size_t arena_used;

static void *from_arena(size_t bytes)
{
    if (arena == NULL)
        return calloc(1, bytes);
    void *object = arena + arena_used;
    arena_used += (bytes + 15) & ~(size_t)15;
    return object;
}
#define ALLOCATE from_arena
#define ALLOCATE_LEAF from_arena
#else
#include <neap.h>
#define ALLOCATE neap_alloc
#define ALLOCATE_LEAF neap_alloc_leaf
#endif

enum { MOST_WORKERS = 64, MOST_CONNECTIONS = 64, BUCKETS = 1 << 17, FIELDS = 5, LINE = 512,
    ARENA = 1 << 16 };

struct entry {
    struct entry *next;
    char *postcode;
    char **fields;
};

static struct entry **table;

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void fail(const char *what)
{
    fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *have(void *object)
{
    if (object == NULL)
        fail("out of memory");
    return object;
}

static char *text(const char *characters)
{
    size_t bytes = strlen(characters) + 1;
    return memcpy(have(ALLOCATE_LEAF(bytes)), characters, bytes);
}

/* Two texts and what stands between them, as a new one. */
static char *joined(const char *left, const char *between, const char *right)
{
    char *whole = have(ALLOCATE_LEAF(strlen(left) + strlen(between) + strlen(right) + 1));
    strcpy(stpcpy(stpcpy(whole, left), between), right);
    return whole;
}

/* ---- The table ---- */

static uint32_t hash(const char *postcode)
{
    uint32_t value = 2166136261u;
    for (; *postcode != '\0'; postcode++)
        value = (value ^ (uint8_t)*postcode) * 16777619u;
    return value % BUCKETS;
}

/* The postcode of a number, such as AB12 3CD; the client makes the same ones. */
static void postcode_of(unsigned number, char *out)
{
    unsigned area = number % 676, district = number / 676 % 90 + 10, unit = number / 60840 % 6760;
    sprintf(out, "%c%c%u %u%c%c", 'A' + area / 26, 'A' + area % 26, district, unit / 676, 'A'
        + unit / 26 % 26,
            'A' + unit % 26);
}

static void load(unsigned entries)
{
    static const char *const streets[] = {"High Street", "Station Road", "Mill Lane", "Church Walk",
        "Queen's Terrace"};
    static const char *const towns[] = {"Newbridge", "Ashford", "Kingsbury", "Whitby", "Longmarsh",
        "Eastwick", "Hale"};
    char line[LINE];
    table = have(ALLOCATE(BUCKETS * sizeof *table));
    for (unsigned number = 0; number < entries; number++) {
        struct entry *entry = have(ALLOCATE(sizeof *entry));
        entry->fields = have(ALLOCATE(FIELDS * sizeof *entry->fields));
        postcode_of(number, line);
        entry->postcode = text(line);
        /* Made of pieces, as a parser would: the pieces are garbage. */
        sprintf(line, "%u", number % 250 + 1);
        entry->fields[0] = joined(text(line), " ", text(streets[number % 5]));
        entry->fields[1] = text(towns[number % 7]);
        sprintf(line, "%u", number % 97);
        entry->fields[2] = joined("County", " ", text(line));
        entry->fields[3] = entry->postcode;
        sprintf(line, "+44 20 %07u", number);
        entry->fields[4] = text(line);
        struct entry **bucket = &table[hash(entry->postcode)];
        entry->next = *bucket;
        *bucket = entry;
    }
}

/* The answer to a request, made of garbage. */
static char *answer(const char *request)
{
    char *postcode = text(request);
    struct entry *entry = table[hash(postcode)];
    while (entry != NULL && strcmp(entry->postcode, postcode) != 0)
        entry = entry->next;
    if (entry == NULL)
        return text("unknown\n");
    /* A list of the fields and their names, then the lines, then the whole: what a program in a
       language with a collector would do. */
    static const char *const names[FIELDS] = {"street", "town", "county", "postcode", "telephone"};
    char **parts = have(ALLOCATE(FIELDS * sizeof *parts));
    for (int field = 0; field < FIELDS; field++)
        parts[field] = joined(text(names[field]), "=", entry->fields[field]);
    char *whole = text("");
    for (int field = 0; field < FIELDS; field++)
        whole = joined(whole, field > 0 ? "; " : "", parts[field]);
    return joined(whole, "\n", "");
}

/* ---- The collector ---- */

static void collect(double *marked, double *swept)
{
    double began = microseconds();
    *swept = 0;
#ifdef SERVER_LIBGC
    GC_gcollect_and_unmap();
    *marked = microseconds() - began;
#elif defined(SERVER_ARENA)
    *marked = microseconds() - began;
#else
    if (!neap_collect())
        fail("no collection");
    *marked = microseconds() - began;
    neap_release_memory();
    *swept = microseconds() - began - *marked;
#endif
}

#ifdef SERVER_LIBGC
static double stop_began, longest_stop;

static void GC_CALLBACK on_event(GC_EventType event)
{
    if (event == GC_EVENT_PRE_STOP_WORLD)
        stop_began = microseconds();
    else if (event == GC_EVENT_POST_START_WORLD && microseconds() - stop_began > longest_stop)
        longest_stop = microseconds() - stop_began;
}
#endif

/* Since the worker was forked. */
static double longest_pause(void)
{
#ifdef SERVER_LIBGC
    return longest_stop;
#elif defined(SERVER_ARENA)
    return 0;
#else
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    return (double)statistics.pause_max_ns * 1e-3;
#endif
}

static double live_bytes(void)
{
#ifdef SERVER_LIBGC
    return (double)(GC_get_heap_size() - GC_get_free_bytes());
#elif defined(SERVER_ARENA)
    return 0;
#else
    neap_statistics statistics;
    neap_statistics_read(&statistics, sizeof statistics);
    return (double)statistics.live_bytes;
#endif
}

/* ---- Workers ---- */

struct connection {
    int socket;
    size_t length;
    char line[LINE];
};

/* Of this worker: microseconds spent in answer(), and calls of it. */
static double answering, answered;

/* Answers every whole line that has come; false when the connection is over. */
static int serve(struct connection *connection)
{
    ssize_t got = read(connection->socket, connection->line + connection->length,
        LINE - 1 - connection->length);
    if (got <= 0)
        return 0;
    connection->length += (size_t)got;
    connection->line[connection->length] = '\0';
    char *end;
    while ((end = strchr(connection->line, '\n')) != NULL) {
        *end = '\0';
        double began = microseconds();
        const char *reply = answer(connection->line);
        answering += microseconds() - began;
        answered++;
        size_t bytes = strlen(reply);
        if (write(connection->socket, reply, bytes) != (ssize_t)bytes)
            return 0;
#ifdef SERVER_ARENA
        arena_used = 0;
#endif
        connection->length -= (size_t)(end + 1 - connection->line);
        memmove(connection->line, end + 1, connection->length + 1);
    }
    return connection->length < LINE - 1;
}

static void obey(int control)
{
    char command, line[LINE];
    double marked, swept;
    if (read(control, &command, 1) != 1 || command == 'q')
        _exit(0);
    if (command == 'c') {
        collect(&marked, &swept);
        snprintf(line, sizeof line, "%.0f %.0f", marked, swept);
    } else if (command == 'a') {
        snprintf(line, sizeof line, "%.3f", answering / answered);
    } else {
        snprintf(line, sizeof line, "%.0f", longest_pause());
    }
    if (write(control, line, strlen(line)) < 0)
        _exit(1);
}

static void work(int listener, int control)
{
    static struct connection connections[MOST_CONNECTIONS];
    int count = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef SERVER_ARENA
    arena = have(malloc(ARENA));
#endif
    for (;;) {
        struct pollfd wait[2 + MOST_CONNECTIONS];
        wait[0] = (struct pollfd){.fd = control, .events = POLLIN};
        /* Two at a time, so that the connections spread over the workers. */
        wait[1] = (struct pollfd){.fd = count < 2 ? listener : -1, .events = POLLIN};
        for (int i = 0; i < count; i++)
            wait[2 + i] = (struct pollfd){.fd = connections[i].socket, .events = POLLIN};
        if (poll(wait, (nfds_t)count + 2, -1) < 0)
            continue;
        if (wait[0].revents != 0)
            obey(control);
        for (int i = count - 1; i >= 0; i--)
            if (wait[2 + i].revents != 0 && !serve(&connections[i])) {
                close(connections[i].socket);
                connections[i] = connections[--count];
            }
        if (wait[1].revents != 0) {
            int on = 1, socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (socket < 0)
                continue; /* another worker was quicker */
            setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            connections[count++] = (struct connection){.socket = socket};
        }
    }
}

/* ---- The parent ---- */

static int controls[MOST_WORKERS];

/* Sends a command to the workers, one after the other, and prints what each says. */
static void ask(int workers, char command)
{
    for (int i = 0; i < workers; i++) {
        char line[LINE];
        if (write(controls[i], &command, 1) != 1)
            fail("a worker is gone");
        ssize_t got = read(controls[i], line, sizeof line - 1);
        if (got <= 0)
            fail("a worker said nothing");
        printf("%s%.*s", i > 0 ? " " : "", (int)got, line);
    }
    putchar('\n');
}

static void time_forks(void)
{
    for (int i = 0; i < 10; i++) {
        double began = microseconds();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        printf("%s%.0f", i > 0 ? " " : "", microseconds() - began);
        waitpid(child, NULL, 0);
    }
    putchar('\n');
}

int main(int count, char **arguments)
{
    if (count < 4) {
        fprintf(stderr, "usage: server ENTRIES WORKERS COLLECTIONS [prefork]\n");
        return 2;
    }
    unsigned entries = (unsigned)atoi(arguments[1]);
    int workers = atoi(arguments[2]), collections = atoi(arguments[3]);
    if (entries == 0 || workers < 1 || workers > MOST_WORKERS) {
        fprintf(stderr, "server: want at least one entry and 1 to %d workers\n", MOST_WORKERS);
        return 2;
    }
#ifdef SERVER_LIBGC
    GC_set_handle_fork(1);
    GC_INIT();
    void (*set_on_event)(GC_on_collection_event_proc);
    *(void **)&set_on_event = dlsym(RTLD_DEFAULT, "GC_set_on_collection_event");
    if (set_on_event != NULL)
        set_on_event(on_event);
#endif
    signal(SIGPIPE, SIG_IGN);
    load(entries);
    printf("parent");
    for (int i = 0; i < collections; i++) {
        double marked, swept;
        collect(&marked, &swept);
        printf(" %.0f %.0f", marked, swept);
    }
    putchar('\n');
    if (count > 4 && strcmp(arguments[4], "prefork") == 0) {
#if defined(SERVER_LIBGC) || defined(SERVER_ARENA)
        fprintf(stderr,
            "server: this build has no neap_prefork; with libgc's interface set NEAP_PREFORK=on-fork\n");
        return 2;
#else
        if (!neap_prefork())
            fail("neap_prefork");
#endif
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        fail("cannot listen on the loopback interface");
    printf("ready %d", ntohs(address.sin_port));
    fflush(stdout);
    for (int i = 0; i < workers; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            fail("socketpair");
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
#ifdef SERVER_LIBGC
            longest_stop = 0;
#endif
            work(listener, pair[1]);
        }
        close(pair[1]);
        controls[i] = pair[0];
        printf(" %d", child);
    }
    putchar('\n');
    fflush(stdout);
    char command[LINE];
    while (fgets(command, sizeof command, stdin) != NULL && strcmp(command, "quit\n") != 0) {
        if (strcmp(command, "collect\n") == 0)
            ask(workers, 'c');
        else if (strcmp(command, "pauses\n") == 0)
            ask(workers, 'p');
        else if (strcmp(command, "answers\n") == 0)
            ask(workers, 'a');
        else if (strcmp(command, "live\n") == 0)
            printf("%.0f\n", live_bytes());
        else if (strcmp(command, "fork\n") == 0)
            time_forks();
        else
            puts("? want collect, pauses, answers, live, fork or quit");
        fflush(stdout);
    }
    for (int i = 0; i < workers; i++)
        if (write(controls[i], "q", 1) != 1)
            fail("a worker is gone");
    for (int i = 0; i < workers; i++)
        wait(NULL);
    return 0;
}
