/* Forks where collections are held off: by another thread, which meanwhile sets something or forks
   itself, and by a thread whose handler of a signal forks while it waits to hold them off. Nobody
   waits for ever. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_int is_held, is_waiting;

static void *forks(void *by_Fork)
{
    while (!is_held)
        usleep(100);
    pid_t child = by_Fork != NULL ? _Fork() : fork();
    if (child == 0)
        _exit(!neap_collect());
    CHECK(succeeded(child));
    return NULL;
}

/* Does this while another thread forks. */
static void while_forked(void (*what)(void), void *by_Fork)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, forks, by_Fork), 0);
    neap_hold_collections();
    is_held = 1;
    usleep(50000);
    what();
    neap_release_collections();
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    is_held = 0;
}

static void sets_an_option(void) { CHECK(neap_option_set("growth", "1.5") == NULL); }
static void sets_the_limit(void) { CHECK(neap_option_set("max_heap", "1G") == NULL); }

static void forks_too(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(succeeded(child));
}

static void in_handler(int by_Fork)
{
    pid_t child = by_Fork == SIGUSR1 ? _Fork() : fork();
    if (child == 0)
        _exit(0);
    CHECK(succeeded(child));
    neap_hold_collections();
    neap_release_collections();
}

static void *waits(void *unused)
{
    is_waiting = 1;
    neap_hold_collections();
    neap_release_collections();
    return unused;
}

static void handled_while_it_waits(int number)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = in_handler};
    CHECK_EQUAL(sigaction(number, &action, NULL), 0);
    is_waiting = 0;
    neap_hold_collections();
    CHECK_EQUAL(pthread_create(&thread, NULL, waits, NULL), 0);
    while (!is_waiting)
        usleep(100);
    usleep(20000);
    CHECK_EQUAL(pthread_kill(thread, number), 0);
    usleep(50000);
    neap_release_collections();
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(void)
{
    neap_init();
    alarm(60);
    while_forked(sets_an_option, NULL);
    while_forked(sets_the_limit, "_Fork");
    while_forked(forks_too, NULL);
    while_forked(forks_too, "_Fork");
    handled_while_it_waits(SIGUSR1);
    handled_while_it_waits(SIGUSR2);
    CHECK(neap_collect());
    return finish();
}
