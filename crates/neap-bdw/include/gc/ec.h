/* Extensible cords: buffers that characters are appended to and that are made a cord at the end.
   In libcord. */
#ifndef EC_H
#define EC_H

#include "cord.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CORD_BUFSZ
#define CORD_BUFSZ 128
#endif

typedef struct CORD_ec_struct {
    CORD ec_cord;
    char *ec_bufptr;
    char ec_buf[CORD_BUFSZ + 1];
} CORD_ec[1];

/* Has the cord take what is in the buffer. */
void CORD_ec_flush_buf(CORD_ec buffer);
void CORD_ec_append_cord(CORD_ec buffer, CORD cord);

#define CORD_ec_init(buffer) \
    ((buffer)[0].ec_cord = 0, (void)((buffer)[0].ec_bufptr = (buffer)[0].ec_buf))
/* One character. */
#define CORD_ec_append(buffer, character) \
    ((void)((buffer)[0].ec_bufptr == (buffer)[0].ec_buf + CORD_BUFSZ \
                ? (CORD_ec_flush_buf(buffer), 0) \
                : 0), \
     (void)(*(buffer)[0].ec_bufptr++ = (character)))
#define CORD_ec_to_cord(buffer) (CORD_ec_flush_buf(buffer), (buffer)[0].ec_cord)

#ifdef __cplusplus
}
#endif

#endif
