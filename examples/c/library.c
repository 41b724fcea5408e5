/* library.c: objects that something else happens to: a table that keeps none of its books alive,
 * and a count that goes down when a book is gone. */
#include <neap.h>
#include <stdatomic.h>
#include <stdio.h>

struct book { char *title; struct book *sequel; };

static atomic_int on_loan;

/* Runs on a thread of the library, after its book is gone. */
static void returned(void *unused)
{
    (void)unused;
    on_loan--;
}

static struct book *lend(int number)
{
    struct book *book = neap_alloc(sizeof *book);
    book->title = neap_alloc_leaf(32); /* text: never scanned */
    snprintf(book->title, 32, "Volume %d", number);
    book->sequel = book; /* a cycle is no trouble */
    on_loan++;
    neap_cleaner_add(book, returned, NULL);
    return book;
}

int main(void)
{
    enum { BOOKS = 1000 };
    neap_handle catalogue[BOOKS]; /* numbers: what they refer to may die */
    struct book *reading = lend(0);
    catalogue[0] = neap_handle_alloc(reading, NEAP_HANDLE_WEAK);
    for (int i = 1; i < BOOKS; i++)
        catalogue[i] = neap_handle_alloc(lend(i), NEAP_HANDLE_WEAK);

    neap_collect();         /* only to see now what else happens in its own time */
    neap_finalizers_run();
    int there = 0;
    for (int i = 0; i < BOOKS; i++)
        there += neap_handle_get(catalogue[i]) != NULL;
    printf("most books are gone: %s\n", there < BOOKS / 10 ? "yes" : "no");
    printf("and were counted: %s\n", on_loan < BOOKS / 10 ? "yes" : "no");
    printf("%s is still here\n", reading->title);
}
