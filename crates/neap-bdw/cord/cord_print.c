/* printf for cords: a format's conversions are formatted by the C library one by one, but for %r,
   whose cord becomes a part of the result as it is. */
#include "cord_node.h"
#include "gc/ec.h"
#include <stdint.h>
#include <wchar.h>

/* A conversion as the format has it. */
struct conversion {
    /* Flags, width and precision filled in, length and letter: for snprintf. */
    char text[64];
    /* -1 where there is none. */
    int width, precision;
    int to_the_left;
    /* 'H' for hh, 'q' for ll, 0 for none. */
    char length;
    char letter;
};

/* An int that the format has, or that '*' has the arguments have; -1 if there is none. */
static int number(const char **at, va_list *arguments)
{
    int value = -1;
    if (**at == '*') {
        ++*at;
        return va_arg(*arguments, int);
    }
    while (**at >= '0' && **at <= '9' && value < 100000000)
        value = (value < 0 ? 0 : value * 10) + (*(*at)++ - '0');
    return value;
}

/* Reads what follows a '%' and returns where it ends, or NULL if it is none. */
static const char *read_conversion(const char *at, struct conversion *it, va_list *arguments)
{
    char flags[8] = "", width[16] = "", precision[16] = "", length[3] = "";
    size_t count = 0;
    *it = (struct conversion){.width = -1, .precision = -1};
    for (; *at != '\0' && strchr("-+ #0'", *at) != NULL; at++)
        if (strchr(flags, *at) == NULL && count < sizeof flags - 1)
            flags[count++] = *at;
    it->to_the_left = strchr(flags, '-') != NULL;
    it->width = number(&at, arguments);
    if (it->width < -1 || (it->width == -1 && at[-1] == '*')) {
        it->to_the_left = 1;
        it->width = it->width == INT32_MIN ? INT32_MAX : -it->width;
    }
    if (*at == '.') {
        at++;
        it->precision = number(&at, arguments);
        if (it->precision < 0 && at[-1] == '.')
            it->precision = 0;
    }
    while (*at != '\0' && strchr("hlLqjzt", *at) != NULL) {
        it->length = it->length == 'h' ? 'H' : it->length == 'l' ? 'q' : *at;
        at++;
    }
    if (*at == '\0')
        return NULL;
    it->letter = *at++;
    if (it->width >= 0)
        snprintf(width, sizeof width, "%d", it->width);
    if (it->precision >= 0)
        snprintf(precision, sizeof precision, ".%d", it->precision);
    if (it->length == 'H' || it->length == 'q')
        strcpy(length, it->length == 'H' ? "hh" : "ll");
    else
        length[0] = it->length;
    snprintf(it->text, sizeof it->text, "%%%s%s%s%s%s%c",
             it->to_the_left && strchr(flags, '-') == NULL ? "-" : "", flags, width, precision,
             length, it->letter);
    return at;
}

/* A cord in a field. */
static CORD in_field(CORD cord, const struct conversion *it)
{
    size_t length;
    if (it->precision >= 0)
        cord = CORD_substr(cord, 0, (size_t)it->precision);
    length = CORD_len(cord);
    if (it->width < 0 || (size_t)it->width <= length)
        return cord;
    CORD spaces = CORD_chars(' ', (size_t)it->width - length);
    return it->to_the_left ? CORD_cat(cord, spaces) : CORD_cat(spaces, cord);
}

/* What the C library makes of one value. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#define FORMATTED(value)                                                    \
    do {                                                                    \
        __typeof__(value) kept = (value);                                   \
        int length = snprintf(NULL, 0, it->text, kept);                     \
        if (length < 0)                                                     \
            return -1;                                                      \
        char *text = cord_allocated(GC_MALLOC_ATOMIC((size_t)length + 1));  \
        snprintf(text, (size_t)length + 1, it->text, kept);                 \
        *result = CORD_cat_char_star(CORD_EMPTY, text, (size_t)length);     \
    } while (0)

static int format_integer(const struct conversion *it, va_list *arguments, CORD *result)
{
    switch (it->length) {
    case 'l':
        FORMATTED(va_arg(*arguments, long));
        break;
    case 'q':
    case 'L':
        FORMATTED(va_arg(*arguments, long long));
        break;
    case 'j':
        FORMATTED(va_arg(*arguments, intmax_t));
        break;
    case 'z':
        FORMATTED(va_arg(*arguments, size_t));
        break;
    case 't':
        FORMATTED(va_arg(*arguments, ptrdiff_t));
        break;
    default:
        FORMATTED(va_arg(*arguments, int));
    }
    return 0;
}

/* 0, and the text; -1 for what is no conversion. */
static int format_one(const struct conversion *it, va_list *arguments, CORD *result)
{
    switch (it->letter) {
    case 'r':
        *result = in_field(va_arg(*arguments, CORD), it);
        return 0;
    case '%':
        *result = "%";
        return 0;
    case 'd':
    case 'i':
    case 'o':
    case 'u':
    case 'x':
    case 'X':
        return format_integer(it, arguments, result);
    case 'c':
        if (it->length == 'l')
            FORMATTED(va_arg(*arguments, wint_t));
        else
            FORMATTED(va_arg(*arguments, int));
        return 0;
    case 'C':
        FORMATTED(va_arg(*arguments, wint_t));
        return 0;
    case 's':
    case 'S':
    case 'p':
        FORMATTED(va_arg(*arguments, void *));
        return 0;
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (it->length == 'L')
            FORMATTED(va_arg(*arguments, long double));
        else
            FORMATTED(va_arg(*arguments, double));
        return 0;
    default:
        return -1;
    }
}

/* %n: how many characters there are so far. */
static void tell(const struct conversion *it, va_list *arguments, size_t length)
{
    switch (it->length) {
    case 'H':
        *va_arg(*arguments, signed char *) = (signed char)length;
        break;
    case 'h':
        *va_arg(*arguments, short *) = (short)length;
        break;
    case 'l':
        *va_arg(*arguments, long *) = (long)length;
        break;
    case 'q':
    case 'L':
        *va_arg(*arguments, long long *) = (long long)length;
        break;
    case 'j':
        *va_arg(*arguments, intmax_t *) = (intmax_t)length;
        break;
    case 'z':
        *va_arg(*arguments, size_t *) = length;
        break;
    case 't':
        *va_arg(*arguments, ptrdiff_t *) = (ptrdiff_t)length;
        break;
    default:
        *va_arg(*arguments, int *) = (int)length;
    }
}

int CORD_vsprintf(CORD *result, CORD format, va_list given)
{
    const char *at = CORD_to_char_star(format);
    CORD made = CORD_EMPTY;
    va_list arguments;
    va_copy(arguments, given);
    while (at != NULL && *at != '\0') {
        struct conversion conversion;
        CORD next = CORD_EMPTY;
        size_t plain = strcspn(at, "%");
        if (plain > 0) {
            made = CORD_cat_char_star(made, at, plain);
            at += plain;
            continue;
        }
        at = read_conversion(at + 1, &conversion, &arguments);
        if (at != NULL && conversion.letter == 'n')
            tell(&conversion, &arguments, CORD_len(made));
        else if (at != NULL && format_one(&conversion, &arguments, &next) == 0)
            made = CORD_cat(made, next);
        else
            at = NULL;
    }
    va_end(arguments);
    if (at == NULL)
        return -1;
    *result = made;
    return (int)CORD_len(made);
}

int CORD_vfprintf(FILE *file, CORD format, va_list arguments)
{
    CORD text;
    int length = CORD_vsprintf(&text, format, arguments);
    return length > 0 && CORD_put(text, file) == EOF ? -1 : length;
}

int CORD_vprintf(CORD format, va_list arguments)
{
    return CORD_vfprintf(stdout, format, arguments);
}

int CORD_sprintf(CORD *result, CORD format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = CORD_vsprintf(result, format, arguments);
    va_end(arguments);
    return length;
}

int CORD_fprintf(FILE *file, CORD format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = CORD_vfprintf(file, format, arguments);
    va_end(arguments);
    return length;
}

int CORD_printf(CORD format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = CORD_vfprintf(stdout, format, arguments);
    va_end(arguments);
    return length;
}
