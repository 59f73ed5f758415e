/*
 * JSON: a strict check before cJSON parses, and writing.
 *
 * cJSON is lenient (control characters, "01", text after the value) and cuts strings at \u0000; so
 * every text is checked here first, and a tree from json_parse holds only what RFC 8259 allows, no
 * NUL, valid UTF-8, and no integer of 2^53 and more, which doubles would round. Depth, and the
 * number of values (64 bytes each as a tree), are limited.
 *
 * Writers append to a buffer and never fail by themselves: check once with buf_check.
 * Owns nothing. After json_init any thread writes; cJSON keeps a file-scope error pointer, so only
 * one thread at a time parses.
 */
#ifndef JOBS_JSON_H
#define JOBS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct cJSON;

#define JSON_DEPTH_MAX 64u
#define JSON_VALUES_MAX 1000000u

/* Makes cJSON take its memory from base/alloc. Call once, before other threads exist. */
void json_init(void);

/* ERROR_BADDATA with the byte (1-based) where the text stops being strict JSON. */
int json_check(struct str text, struct error *e);
/*
 * json_check, then the tree (json_free it). ERROR_INVALID names a field with a too large
 * integer.
 */
int json_parse(struct cJSON **ret, struct str text, struct error *e);
void json_free(struct cJSON *tree); /* NULL is fine */

/* The string with quotes; invalid UTF-8 becomes U+FFFD. */
void json_put_string(struct buf *out, struct str s);
/* `"name":` */
void json_put_name(struct buf *out, const char *name);
/* Shortest text that reads back as the same double; null when it is not finite. */
void json_put_number(struct buf *out, double value);
void json_put_tree(struct buf *out, const struct cJSON *value);

#endif
