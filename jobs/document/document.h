/*
 * Documents: files, folders and standard input to text.
 *
 * A folder is walked recursively, sorted by the bytes of the relative path; hidden entries (leading
 * dot) are skipped; links to files and folders are followed, but a link back to a folder that is
 * being walked is skipped. Everything else that is not a file is refused by name, and so is a file
 * that is no text: a document silently left out is worse than an error.
 *
 * Stays true: `text` is valid UTF-8 without NUL and byte order mark, and not blank; custom_id is
 * the path relative to the argument (a file's own name; "stdin"), valid UTF-8, at most 512 bytes.
 * One document is in memory at a time. One thread per walk.
 */
#ifndef JOBS_DOCUMENT_DOCUMENT_H
#define JOBS_DOCUMENT_DOCUMENT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define DOCUMENT_MAX_BYTES (32u << 20)

struct document {
    struct str custom_id;
    struct str filename; /* last component */
    struct str text;
};

struct document_walk;

/* argument: a file, a folder, or "-" (standard input, read from descriptor 0). */
int document_walk_open(struct document_walk **ret, const char *argument, struct error *e);
void document_walk_close(struct document_walk *w); /* NULL is fine */
/* 1 with a document (it holds until the next call), 0 at the end, or a negative code. */
int document_walk_next(struct document_walk *w, struct document *ret, struct error *e);

/*
 * Turns the bytes of one document into text, by its name and first bytes (formats.def). `path` is
 * for messages. `bytes` may be changed in place.
 */
int document_text(const char *path, struct buf *bytes, struct str *ret, struct error *e);

#endif
