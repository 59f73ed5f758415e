/*
 * What is to be fetched: one URL, all parts of a split model, or the lines of a list.
 *
 * A list is a text file: a URL a line, then, in any order, its size in bytes and its SHA-256 (64
 * hexadecimal digits), both optional. '#' begins a comment.
 *
 * Owns the strings. Stays true: names differ from each other and from the files that a download puts
 * beside them; all of it was checked before anything is fetched. One thread.
 */
#ifndef BATCH_FETCH_LIST_H
#define BATCH_FETCH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define FETCH_FILES_MAX 500
#define FETCH_UNKNOWN UINT64_MAX

struct fetch_item {
    char *url;
    char *name;
    uint64_t size;   /* FETCH_UNKNOWN: the list does not say */
    char sha256[65]; /* lower case; "": the list does not say */
};

struct fetch_list {
    struct fetch_item *item; /* [n] */
    size_t n;
};

/* `what`: a URL, or the path of a list. Released in any case by the caller. */
int fetch_list_read(struct fetch_list *ret, const char *what, struct error *e);
void fetch_list_release(struct fetch_list *l); /* a zeroed one is fine */

/* Whether the text is a SHA-256; lower case into out. */
bool fetch_is_sha256(const char *text, size_t len, char out[65]);

#endif
