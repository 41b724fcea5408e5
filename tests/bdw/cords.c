/* libcord against plain strings: random cords made, cut, searched, compared, gone through and
   printed beside what the same does to arrays of characters. */
#include "check.h"
#include <gc/cord.h>
#include <gc/ec.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/wait.h>

enum { CORDS = 40, LONGEST = 4000 };

static struct pair {
    CORD cord;
    size_t length;
    char text[LONGEST + 1];
} pairs[CORDS];

static unsigned long random_state = 1;
static size_t below(size_t limit)
{
    random_state = random_state * 6364136223846793005UL + 1442695040888963407UL;
    return limit == 0 ? 0 : (random_state >> 33) % limit;
}

static char say(size_t index, void *data)
{
    return ((char *)data)[index];
}

static char nth(size_t index, void *data)
{
    (void)data;
    return (char)('a' + index % 26);
}

static void set(struct pair *pair, CORD cord, const char *text, size_t length)
{
    memmove(pair->text, text, length);
    pair->cord = cord;
    pair->length = length;
}

static APART void change(struct pair *to)
{
    struct pair *one = &pairs[below(CORDS)], *other = &pairs[below(CORDS)];
    char text[LONGEST * 2 + 1];
    size_t index, length;
    switch (below(8)) {
    case 0: /* new, from a string or from a function; '\0' among the characters */
        length = below(60);
        for (index = 0; index < length; index++)
            text[index] = below(30) ? (char)('a' + below(4)) : (char)(below(256));
        char *kept = memcpy(GC_MALLOC_ATOMIC(length + 1), text, length);
        kept[length] = (char)below(2);
        set(to,
            below(2) ? CORD_cat_char_star(CORD_EMPTY, kept, length)
                     : CORD_from_fn(say, kept, length),
            text, length);
        break;
    case 1:
        index = below(one->length + 3);
        length = below(one->length);
        CORD part = CORD_substr(one->cord, index, length);
        if (index > one->length)
            index = one->length;
        if (length > one->length - index)
            length = one->length - index;
        set(to, part, one->text + index, length);
        break;
    case 2:
        to->cord = CORD_balance(to->cord);
        break;
    case 3:
        if (to->length < LONGEST) {
            to->text[to->length++] = 'x';
            to->cord = CORD_cat_char(to->cord, 'x');
        }
        break;
    default:
        if (one->length + other->length <= LONGEST) {
            memcpy(text, one->text, one->length);
            memcpy(text + one->length, other->text, other->length);
            set(to, CORD_cat(one->cord, other->cord), text, one->length + other->length);
        }
    }
}

struct reader {
    const char *text;
    size_t at;
    int wrong;
};
static int forward(char character, void *data)
{
    struct reader *reader = data;
    reader->wrong += reader->text[reader->at++] != character;
    return 0;
}
static int batch(const char *text, void *data)
{
    for (; *text != '\0'; text++)
        forward(*text, data);
    return 0;
}
static int backward(char character, void *data)
{
    struct reader *reader = data;
    reader->wrong += reader->text[--reader->at] != character;
    return 0;
}
static int sign(int number)
{
    return (number > 0) - (number < 0);
}

static APART void examine(struct pair *pair)
{
    size_t length = pair->length, index = below(length), seen = 0;
    CORD_pos position;
    CHECK_EQUAL(CORD_len(pair->cord), length);
    CHECK((pair->cord == CORD_EMPTY) == (length == 0));
    CHECK(memcmp(CORD_to_char_star(pair->cord), pair->text, length) == 0);
    CORD_FOR (position, pair->cord) {
        if (CORD_pos_fetch(position) != pair->text[CORD_pos_to_index(position)])
            break;
        seen++;
    }
    CHECK_EQUAL(seen, length);
    struct reader reader = {pair->text, 0, 0};
    CHECK_EQUAL(CORD_iter5(pair->cord, 0, forward, batch, &reader), 0);
    CHECK(reader.at == length && reader.wrong == 0);
    CHECK_EQUAL(CORD_riter(pair->cord, backward, &reader), 0);
    CHECK(reader.at == 0 && reader.wrong == 0);
    if (length == 0)
        return;
    CHECK_EQUAL(CORD_fetch(pair->cord, index), pair->text[index]);
    for (CORD_set_pos(position, pair->cord, index), seen = index; CORD_pos_valid(position);
         CORD_prev(position), seen--)
        CHECK_EQUAL(CORD_pos_fetch(position), pair->text[seen]);
    CHECK_EQUAL(seen, (size_t)-1);
    reader.at = index;
    CORD_iter5(pair->cord, index, forward, CORD_NO_FN, &reader);
    CHECK(reader.at == length && reader.wrong == 0);
    reader.at = index + 1;
    CORD_riter4(pair->cord, index, backward, &reader);
    CHECK(reader.at == 0 && reader.wrong == 0);

    char wanted = pair->text[below(length)];
    char *found = memchr(pair->text + index, wanted, length - index);
    CHECK_EQUAL(CORD_chr(pair->cord, index, wanted),
                found ? (size_t)(found - pair->text) : CORD_NOT_FOUND);
    found = memrchr(pair->text, wanted, index + 1);
    CHECK_EQUAL(CORD_rchr(pair->cord, index, wanted),
                found ? (size_t)(found - pair->text) : CORD_NOT_FOUND);
    size_t wanted_length = below(length - index);
    found = memmem(pair->text, length, pair->text + index, wanted_length);
    CHECK_EQUAL(CORD_str(pair->cord, 0, CORD_substr(pair->cord, index, wanted_length)),
                (size_t)(found - pair->text));

    struct pair *other = &pairs[below(CORDS)];
    size_t least = length < other->length ? length : other->length;
    int order = memcmp(pair->text, other->text, least);
    order = order ? order : (length > other->length) - (length < other->length);
    CHECK_EQUAL(sign(CORD_cmp(pair->cord, other->cord)), sign(order));
}

static APART void print(void)
{
    CORD made = CORD_EMPTY;
    char expected[400];
    int count = 0, end = 0;
    CORD abc = CORD_cat(CORD_chars('a', 20), "bc");
    int said = CORD_sprintf(&made, "%5d|%-6s|%#lx|%.2f%%|%c|%*d|%.*s|%r%n", -3, "xy", 255L, 2.5,
                            'q', 4, 7, 2, "hello", abc, &count);
    end = snprintf(expected, sizeof expected, "%5d|%-6s|%#lx|%.2f%%|%c|%*d|%.*s|%s", -3, "xy", 255L,
                   2.5, 'q', 4, 7, 2, "hello", "aaaaaaaaaaaaaaaaaaaabc");
    CHECK(strcmp(CORD_to_const_char_star(made), expected) == 0);
    CHECK_EQUAL(said, end);
    CHECK_EQUAL(count, end);
    CHECK_EQUAL(CORD_sprintf(&made, "[%6.2r][%-6r]", abc, "xyz"), 16);
    CHECK(strcmp(CORD_to_const_char_star(made), "[    aa][xyz   ]") == 0);
    CHECK_EQUAL(CORD_sprintf(&made, "%y"), -1);
    CHECK_EQUAL(CORD_sprintf(&made, "%c", 0), 1);
    CHECK_EQUAL(CORD_len(made), 1);
}

static APART void files(void)
{
    for (size_t length = 10; length <= 300000; length *= 30) {
        CORD text = CORD_from_fn(nth, NULL, length);
        char name[] = "/tmp/neap-cords-XXXXXX";
        FILE *file = fdopen(mkstemp(name), "w+");
        CHECK_EQUAL(CORD_put(text, file), 1);
        fflush(file);
        CHECK_EQUAL(CORD_cmp(CORD_from_file_eager(fopen(name, "r")), text), 0);
        CHECK_EQUAL(CORD_cmp(CORD_from_file_lazy(fopen(name, "r")), text), 0);
        CHECK_EQUAL(CORD_cmp(CORD_from_file(file), text), 0);
        unlink(name);
    }
}

static int over;

static void *reads(void *text)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        CHECK_EQUAL(CORD_fetch(text, 5), nth(5, NULL));
    return NULL;
}

/* A child reads a file that a thread of its parent was just reading. */
static APART void forks(void)
{
    char name[] = "/tmp/neap-cords-XXXXXX";
    FILE *file = fdopen(mkstemp(name), "w+");
    CHECK_EQUAL(CORD_put(CORD_from_fn(nth, NULL, 10000), file), 1);
    fflush(file);
    unlink(name);
    CORD text = CORD_from_file_lazy(file);
    pthread_t reader;
    CHECK_EQUAL(pthread_create(&reader, NULL, reads, (void *)text), 0);
    for (int times = 0; times < 50; times++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            _exit(CORD_fetch(text, 5) != nth(5, NULL));
        }
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK_EQUAL(pthread_join(reader, NULL), 0);
}

int main(void)
{
    GC_INIT();
    for (int turn = 0; turn < 20000; turn++) {
        struct pair *to = &pairs[below(CORDS)];
        change(to);
        examine(to);
    }
    CHECK(GC_get_gc_no() > 0);

    /* A million characters one by one, from either end, and a buffer of as many. */
    CORD grown = CORD_EMPTY;
    CORD_ec buffer;
    CORD_ec_init(buffer);
    for (int index = 0; index < 1000000; index++) {
        grown = index % 2 ? CORD_cat_char(grown, 'r') : CORD_cat("l", grown);
        CORD_ec_append(buffer, index % 2 ? 'r' : 'l');
    }
    CHECK_EQUAL(CORD_len(grown), 1000000);
    CHECK_EQUAL(CORD_chr(grown, 0, 'r'), 500000);
    CHECK_EQUAL(CORD_len(CORD_ec_to_cord(buffer)), 1000000);
    CHECK_EQUAL(CORD_fetch(CORD_ec_to_cord(buffer), 777777), 'r');
    CHECK_EQUAL(CORD_len(CORD_catn(3, "one", CORD_EMPTY, "three")), 8);
    /* More characters than there is memory for. */
    CORD huge = CORD_cat(CORD_nul((size_t)1 << 45), "end");
    CHECK_EQUAL(CORD_fetch(huge, ((size_t)1 << 45) + 2), 'd');
    CHECK_EQUAL(CORD_len(CORD_substr(huge, 5, (size_t)1 << 44)), (size_t)1 << 44);
    print();
    files();
    forks();
    return finish();
}
