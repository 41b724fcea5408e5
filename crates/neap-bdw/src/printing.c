/* The variadic half of printing.rs: formats onto the stack and writes the text to a file
   descriptor. Called from any thread; never allocates for texts up to the buffer's size. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Written by GC_set_log_fd. */
int neap_bdw_log_descriptor = 2;

static void print_to(int descriptor, const char *format, va_list arguments)
{
    char text[1025];
    int length = vsnprintf(text, sizeof text, format, arguments);
    const char *from = text;
    if (length >= (int)sizeof text)
        length = sizeof text - 1;
    while (length > 0) {
        ssize_t written = write(descriptor, from, (size_t)length);
        if (written <= 0)
            return;
        from += written;
        length -= (int)written;
    }
}

#define PRINTS_TO(name, descriptor)             \
    void name(const char *format, ...)          \
    {                                           \
        va_list arguments;                      \
        va_start(arguments, format);            \
        print_to(descriptor, format, arguments);\
        va_end(arguments);                      \
    }

PRINTS_TO(neap_bdw_printf, 1)
PRINTS_TO(neap_bdw_error_printf, 2)
PRINTS_TO(neap_bdw_log_printf, neap_bdw_log_descriptor)
