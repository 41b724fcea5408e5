/* Cords: immutable strings that are cheap to concatenate and to cut, since results share what they
   are made of. In libcord.

   A cord is null (empty), a C string that is not empty, or a value that only these functions look
   into; a cord of the last sort may have any characters, also '\0'. Nothing is ever freed: a cord
   lies in the collected heap or in the program's constants, and must not be written to. */
#ifndef CORD_H
#define CORD_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CORD_API
#define CORD_API extern
#endif

typedef const char *CORD;
#define CORD_EMPTY 0
/* Of a cord that is not empty: whether it is a C string. */
#define CORD_IS_STRING(cord) (*(cord) != '\0')

CORD_API CORD CORD_cat(CORD first, CORD second);
/* With a text whose length is known, and which must not be changed any more. */
CORD_API CORD CORD_cat_char_star(CORD first, const char *text, size_t length);
CORD_API CORD CORD_cat_char(CORD first, char character);
CORD_API CORD CORD_catn(int count, /* CORD */...);
CORD_API size_t CORD_len(CORD cord);
/* At most `length` characters from the index on; empty from the end on. */
CORD_API CORD CORD_substr(CORD cord, size_t index, size_t length);
/* A cord of so many characters that a function says one by one, when they are asked for. */
typedef char (*CORD_fn)(size_t index, void *data);
CORD_API CORD CORD_from_fn(CORD_fn function, void *data, size_t length);
CORD_API CORD CORD_chars(char character, size_t length);
#define CORD_nul(length) CORD_chars('\0', (length))
/* The same text as a tree of the least depth. */
CORD_API CORD CORD_balance(CORD cord);

/* Calls a function with each character from the index on, until it returns something else than 0,
   which is returned. With a second function, whole C strings may be passed to that one instead. */
typedef int (*CORD_iter_fn)(char character, void *data);
typedef int (*CORD_batched_iter_fn)(const char *text, void *data);
#define CORD_NO_FN ((CORD_batched_iter_fn)0)
CORD_API int CORD_iter5(CORD cord, size_t index, CORD_iter_fn function,
                        CORD_batched_iter_fn batched, void *data);
CORD_API int CORD_iter(CORD cord, CORD_iter_fn function, void *data);
#define CORD_iter(cord, function, data) CORD_iter5(cord, 0, function, CORD_NO_FN, data)
/* Backwards: from the index to the first one; from the end. */
CORD_API int CORD_riter4(CORD cord, size_t index, CORD_iter_fn function, void *data);
CORD_API int CORD_riter(CORD cord, CORD_iter_fn function, void *data);

CORD_API char CORD_fetch(CORD cord, size_t index);
/* By characters as unsigned numbers: below 0, 0 or above. The second: of what begins at the
   indexes, at most `length` characters. */
CORD_API int CORD_cmp(CORD first, CORD second);
CORD_API int CORD_ncmp(CORD first, size_t first_index, CORD second, size_t second_index,
                       size_t length);
/* Where a character or a cord is found: from the index on; at the index or before it. */
#define CORD_NOT_FOUND ((size_t)(-1))
CORD_API size_t CORD_chr(CORD cord, size_t index, int character);
CORD_API size_t CORD_rchr(CORD cord, size_t index, int character);
CORD_API size_t CORD_str(CORD cord, size_t index, CORD wanted);

/* From and to C strings. The first of them is a copy of its argument; the result of the second may
   be written to, that of the third may be a part of the cord. */
CORD_API CORD CORD_from_char_star(const char *text);
CORD_API char *CORD_to_char_star(CORD cord);
CORD_API const char *CORD_to_const_char_star(CORD cord);

/* A file's contents, which must stay as they are. The file belongs to the cord, and is closed when
   it is not needed any more: the eager form reads all of it now, the lazy one when asked for parts,
   the first one whichever suits its length. */
CORD_API CORD CORD_from_file(FILE *file);
CORD_API CORD CORD_from_file_eager(FILE *file);
CORD_API CORD CORD_from_file_lazy(FILE *file);
/* 1, or EOF. */
CORD_API int CORD_put(CORD cord, FILE *file);
/* Prints how the cord is made, to standard output. */
CORD_API void CORD_dump(CORD cord);

/* Called where memory is refused, before the program ends. */
CORD_API void (*CORD_oom_fn)(void);

#ifndef CORD_NO_IO
#include <stdarg.h>
/* As printf and its like, with formats that are cords, and %r for a cord. The number of characters,
   or -1. */
CORD_API int CORD_sprintf(CORD *result, CORD format, ...);
CORD_API int CORD_vsprintf(CORD *result, CORD format, va_list arguments);
CORD_API int CORD_fprintf(FILE *file, CORD format, ...);
CORD_API int CORD_vfprintf(FILE *file, CORD format, va_list arguments);
CORD_API int CORD_printf(CORD format, ...);
CORD_API int CORD_vprintf(CORD format, va_list arguments);
#endif

#ifdef __cplusplus
}
#endif

#include "cord_pos.h"

#endif
