/* A heap so large that several threads ask what was written in the last stop of a cycle. What its
   threads change anywhere, and only once in a while, stays what they made it. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 2, ROWS = 40000, COLUMNS = 1024, AT_ONCE = 100, SECONDS = 3 };

struct leaf {
    size_t row, column, number;
};

/* Each takes two pages; 320 MB in all. */
struct row {
    struct leaf *leaves[COLUMNS];
};

static struct row **rows; /* of each thread its share */
static _Atomic long changes, lost;
static _Atomic int done;
static int cycles;

/* One that is lost is overwritten: such objects are allocated all the time. */
static struct leaf *make(size_t row, size_t column, size_t number)
{
    struct leaf *leaf = neap_alloc(sizeof *leaf);
    *leaf = (struct leaf){ row, column, number };
    return leaf;
}

static void *change(void *argument)
{
    size_t own = (size_t)argument, random = own + 1, number = 0;
    while (!atomic_load(&done)) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t row = (random >> 33) % (ROWS / THREADS) * THREADS + own;
        size_t column = (random >> 20) % COLUMNS;
        struct leaf *before = rows[row]->leaves[column];
        lost += before && (before->row != row || before->column != column);
        /* The one before moves to where its neighbour was. */
        size_t next = (column + 1) % COLUMNS;
        if (before)
            before->column = next;
        rows[row]->leaves[next] = before;
        rows[row]->leaves[column] = make(row, column, number++);
        /* At full speed it would write to all pages while one cycle marks. */
        if (++changes % AT_ONCE == 0)
            usleep(1000);
    }
    return NULL;
}

int main(void)
{
    rows = neap_alloc(ROWS * sizeof *rows);
    for (size_t row = 0; row < ROWS; row++)
        rows[row] = neap_alloc(sizeof **rows);
    pthread_t threads[THREADS];
    for (size_t index = 0; index < THREADS; index++)
        CHECK_EQUAL(pthread_create(&threads[index], NULL, change, (void *)index), 0);
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end; cycles++)
        CHECK(neap_collect());
    done = 1;
    for (size_t index = 0; index < THREADS; index++)
        pthread_join(threads[index], NULL);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t column = 0; column < COLUMNS; column++) {
            struct leaf *leaf = rows[row]->leaves[column];
            lost += leaf && (leaf->row != row || leaf->column != column);
        }
    CHECK_EQUAL(lost, 0);
    CHECK(changes > 0 && cycles > 0);
    return finish();
}
