/* A slice of bytes that somebody else owns; not NUL-terminated. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct str {
    const char *ptr;
    size_t len;
};

struct str str_of(const char *s); /* NULL gives an empty slice */
struct str str_slice(const char *ptr, size_t len);
bool str_equal(struct str a, struct str b);
bool str_equal_c(struct str a, const char *b);

/* Whether the bytes are well-formed UTF-8 (RFC 3629); *at gets the first bad offset. at may be NULL. */
bool str_utf8_valid(struct str s, size_t *at);
/* Length of the longest prefix that does not end inside a UTF-8 character. */
size_t str_utf8_whole(struct str s);
/* Decodes one character: bytes consumed (>= 1); an invalid byte gives U+FFFD and 1. s.len > 0. */
size_t str_utf8_next(struct str s, uint32_t *ret_rune);
/* Writes 1 to 4 bytes and returns how many. */
size_t str_utf8_put(uint32_t rune, char out[4]);

/* "92G", "512M", "1.5T", "4096": powers of 1024. */
int str_parse_size(const char *text, uint64_t *ret_bytes, struct error *e);
/* Decimal integer in [min, max]; nothing may follow it. */
int str_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret, struct error *e);
int str_parse_double(const char *text, double min, double max, double *ret, struct error *e);
/*
 * Takes a list's next word, up to a comma or the end, off *list (NULL after the last) into out. False:
 * it does not fit, out has its beginning.
 */
bool str_take_word(const char **list, char *out, size_t size);
/* "1.5 GiB" into out; returns out. */
const char *str_format_size(uint64_t bytes, char out[24]);
/* "1h 02m 03s" into out; returns out. */
const char *str_format_duration(int64_t seconds, char out[24]);

#endif
