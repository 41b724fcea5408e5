/* The variadic half of printing.rs: formats onto the stack and has the text written
   where it belongs. Called from any thread; never allocates for texts up to the buffer's size. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Writes text to standard output (1), standard error (2) or the log (3): output.rs, from the
   library's start on. */
void (*neap_bdw_write)(int stream, const char *text, size_t length);

static void print_to(int stream, const char *format, va_list arguments)
{
    char text[1025];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= (int)sizeof text)
        length = sizeof text - 1;
    if (length > 0)
        neap_bdw_write(stream, text, (size_t)length);
}

#define PRINTS_TO(name, stream)                 \
    void name(const char *format, ...)          \
    {                                           \
        va_list arguments;                      \
        va_start(arguments, format);            \
        print_to(stream, format, arguments);    \
        va_end(arguments);                      \
    }

PRINTS_TO(neap_bdw_printf, 1)
PRINTS_TO(neap_bdw_error_printf, 2)
PRINTS_TO(neap_bdw_log_printf, 3)
