/*
 * The seam between the walk and the kinds of documents. Private to jobs/document/.
 *
 * Owns nothing. A reader gets the whole file in `bytes`, may change it, and answers with a slice of
 * it; document_text checks what every text must be (UTF-8, no NUL, not blank) afterwards.
 */
#ifndef JOBS_DOCUMENT_FORMAT_H
#define JOBS_DOCUMENT_FORMAT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

typedef int document_read_fn(const char *path, struct buf *bytes, struct str *ret, struct error *e);

int format_text(const char *path, struct buf *bytes, struct str *ret, struct error *e);

#endif
