/* What programs do with cords beyond making them: compare, search, turn into C strings and files
   and back, append to buffers. */
#include "cord_node.h"
#include "gc/ec.h"
#include <pthread.h>

CORD CORD_cat_char(CORD first, char character)
{
    return CORD_cat(first, CORD_chars(character, 1));
}

static char same(size_t index, void *data)
{
    (void)index;
    return (char)(size_t)data;
}

CORD CORD_chars(char character, size_t length)
{
    return CORD_from_fn(same, (void *)(size_t)(unsigned char)character, length);
}

char CORD_fetch(CORD cord, size_t index)
{
    CORD_pos position;
    CORD_set_pos(position, cord, index);
    return CORD_pos_valid(position) ? CORD_pos_fetch(position) : '\0';
}

int CORD_ncmp(CORD first, size_t first_index, CORD second, size_t second_index, size_t length)
{
    CORD_pos one, other;
    CORD_set_pos(one, first, first_index);
    CORD_set_pos(other, second, second_index);
    for (; length > 0; length--) {
        if (!CORD_pos_valid(one) || !CORD_pos_valid(other))
            return CORD_pos_valid(one) - CORD_pos_valid(other);
        int difference =
            (unsigned char)CORD_pos_fetch(one) - (unsigned char)CORD_pos_fetch(other);
        if (difference != 0)
            return difference;
        CORD_next(one);
        CORD_next(other);
    }
    return 0;
}

int CORD_cmp(CORD first, CORD second)
{
    return CORD_ncmp(first, 0, second, 0, (size_t)-1);
}

size_t CORD_chr(CORD cord, size_t index, int character)
{
    CORD_pos position;
    for (CORD_set_pos(position, cord, index); CORD_pos_valid(position); CORD_next(position))
        if (CORD_pos_fetch(position) == (char)character)
            return CORD_pos_to_index(position);
    return CORD_NOT_FOUND;
}

size_t CORD_rchr(CORD cord, size_t index, int character)
{
    CORD_pos position;
    for (CORD_set_pos(position, cord, index); CORD_pos_valid(position); CORD_prev(position))
        if (CORD_pos_fetch(position) == (char)character)
            return CORD_pos_to_index(position);
    return CORD_NOT_FOUND;
}

size_t CORD_str(CORD cord, size_t index, CORD wanted)
{
    size_t length = CORD_len(cord), wanted_length = CORD_len(wanted);
    if (index > length || wanted_length > length - index)
        return CORD_NOT_FOUND;
    if (wanted_length == 0)
        return index;
    char first = CORD_fetch(wanted, 0);
    while (index <= length - wanted_length) {
        index = CORD_chr(cord, index, first);
        if (index == CORD_NOT_FOUND || index > length - wanted_length)
            return CORD_NOT_FOUND;
        if (CORD_ncmp(cord, index, wanted, 0, wanted_length) == 0)
            return index;
        index++;
    }
    return CORD_NOT_FOUND;
}

CORD CORD_from_char_star(const char *text)
{
    size_t length = strlen(text);
    if (length == 0)
        return CORD_EMPTY;
    return memcpy(cord_allocated(GC_MALLOC_ATOMIC(length + 1)), text, length + 1);
}

static int append(char character, void *data)
{
    *(*(char **)data)++ = character;
    return 0;
}

static int append_text(const char *text, void *data)
{
    size_t length = strlen(text);
    memcpy(*(char **)data, text, length);
    *(char **)data += length;
    return 0;
}

char *CORD_to_char_star(CORD cord)
{
    char *text = cord_allocated(GC_MALLOC_ATOMIC(CORD_len(cord) + 1));
    char *end = text;
    CORD_iter5(cord, 0, append, append_text, &end);
    *end = '\0';
    return text;
}

const char *CORD_to_const_char_star(CORD cord)
{
    if (cord == CORD_EMPTY)
        return "";
    return is_string(cord) ? cord : CORD_to_char_star(cord);
}

static int put(char character, void *file)
{
    return putc(character, file) == EOF;
}

static int put_text(const char *text, void *file)
{
    return fputs(text, file) == EOF;
}

int CORD_put(CORD cord, FILE *file)
{
    return CORD_iter5(cord, 0, put, put_text, file) == 0 ? 1 : EOF;
}

/* Files. */

/* Up to this length CORD_from_file reads all at once. */
enum { EAGER = 64 * 1024, PIECE = 4096 };

/* A file that is read when asked for, a piece of it in memory. Its lock is for threads that read
   the same cord. */
struct file_text {
    FILE *file;
    size_t start;
    size_t length;
    char piece[PIECE];
};
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

/* A child of fork has it free, whichever thread read. */
static void hold_reading(void)
{
    pthread_mutex_lock(&reading);
}

static void let_reading(void)
{
    pthread_mutex_unlock(&reading);
}

__attribute__((constructor)) static void follow_forks(void)
{
    pthread_atfork(hold_reading, let_reading, let_reading);
}

static char from_file(size_t index, void *data)
{
    struct file_text *text = data;
    char character = '\0';
    pthread_mutex_lock(&reading);
    if (index < text->start || index - text->start >= text->length) {
        text->start = index - index % PIECE;
        text->length = 0;
        if (fseek(text->file, (long)text->start, SEEK_SET) == 0)
            text->length = fread(text->piece, 1, PIECE, text->file);
    }
    if (index - text->start < text->length)
        character = text->piece[index - text->start];
    pthread_mutex_unlock(&reading);
    return character;
}

static void GC_CALLBACK close_file(void *object, void *data)
{
    (void)data;
    fclose(((struct file_text *)object)->file);
}

static size_t length_of(FILE *file)
{
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    return end < 0 ? 0 : (size_t)end;
}

CORD CORD_from_file_lazy(FILE *file)
{
    size_t length = length_of(file);
    struct file_text *text = cord_allocated(GC_MALLOC(sizeof *text));
    text->file = file;
    GC_REGISTER_FINALIZER_NO_ORDER(text, close_file, NULL, NULL, NULL);
    return CORD_from_fn(from_file, text, length);
}

CORD CORD_from_file_eager(FILE *file)
{
    CORD_ec buffer;
    int character;
    CORD_ec_init(buffer);
    while ((character = getc(file)) != EOF)
        CORD_ec_append(buffer, (char)character);
    fclose(file);
    return CORD_balance(CORD_ec_to_cord(buffer));
}

CORD CORD_from_file(FILE *file)
{
    return length_of(file) <= EAGER ? CORD_from_file_eager(file) : CORD_from_file_lazy(file);
}

/* Buffers. */

__attribute__((visibility("default"))) void CORD_ec_flush_buf(CORD_ec buffer)
{
    size_t length = (size_t)(buffer[0].ec_bufptr - buffer[0].ec_buf);
    if (length == 0)
        return;
    char *text = cord_allocated(GC_MALLOC_ATOMIC(length + 1));
    memcpy(text, buffer[0].ec_buf, length);
    text[length] = '\0';
    buffer[0].ec_cord = CORD_cat_char_star(buffer[0].ec_cord, text, length);
    buffer[0].ec_bufptr = buffer[0].ec_buf;
}

__attribute__((visibility("default"))) void CORD_ec_append_cord(CORD_ec buffer, CORD cord)
{
    CORD_ec_flush_buf(buffer);
    buffer[0].ec_cord = CORD_cat(buffer[0].ec_cord, cord);
}
