/*
 * A growable byte buffer with a hard ceiling.
 *
 * Stays true: never holds more than `max` bytes; a NUL follows the bytes (not counted) once anything
 * was appended; after a failed append (ceiling or memory) the content is unchanged and `failed` sticks,
 * so a caller may append many times and check once with buf_check.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

struct buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t max;
    size_t wanted; /* length that the append which failed would have reached */
    bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory, forgets the failure */
int buf_append(struct buf *b, const void *bytes, size_t n);
int buf_append_str(struct buf *b, struct str s);
int buf_append_c(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) ATTR_PRINTF(2, 3);
/* 0, or ERROR_NOMEM / ERROR_INVALID "what: N bytes, limit M". */
int buf_check(const struct buf *b, const char *what, struct error *e);
struct str buf_str(const struct buf *b);
/* Hands the NUL-terminated block over (mem_free it) and empties the buffer; NULL when nothing was written. */
char *buf_take(struct buf *b);

#endif
