/* sessions.c: a table of sessions that come and go, as a server has one: `sessions SECONDS
 * [SNAPSHOT]`. Says how many came, and the longest time that one took; writes a heap snapshot at
 * the end. One thread. */
#include <neap.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PLACES = 1 << 17 };

struct session { struct session *next; char *name; long visits; };

static struct session *table[PLACES]; /* static data is scanned */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static struct session *open_session(long number)
{
    struct session *session = neap_alloc(sizeof *session);
    session->name = neap_alloc_leaf(32); /* text: never scanned */
    snprintf(session->name, 32, "user %ld", number);
    return session;
}

int main(int count, char **arguments)
{
    double seconds = count > 1 ? atof(arguments[1]) : 1, longest = 0;
    unsigned long place = 1;
    long sessions = 0;
    for (double start = now(), last = start; last - start < seconds; sessions++) {
        place = place * 6364136223846793005ul + 1442695040888963407ul;
        struct session **head = &table[place >> 47];
        struct session *session = open_session(sessions);
        session->next = *head;
        *head = session;
        if (session->next && session->next->next)
            session->next->next = NULL; /* the third one of a place goes */
        double time = now();
        longest = time - last > longest ? time - last : longest;
        last = time;
    }
    printf("%ld sessions, the longest took %.3f ms\n", sessions, longest * 1e3);
    if (count > 2 && neap_heap_snapshot(arguments[2]) != 0)
        return 1;
}
