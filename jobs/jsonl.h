/*
 * Reads OpenAI batch input (JSON lines), one request at a time.
 *
 * Owns a buffer as long as the longest line; memory does not grow with the file. Blank lines are
 * skipped, CRLF and a byte order mark accepted. Besides full lines (custom_id, method, url, body)
 * bare bodies with "prompt" (/v1/completions) or "messages" (/v1/chat/completions) are taken, with
 * a "custom_id" member or else one made of the line number: "line-17".
 *
 * Stays true: every error names the input and the 1-based line; every body given out passed
 * job_request_parse; all lines are of one endpoint. Whether custom_ids are unique is the queue's to
 * say (it has them all). After an error only jsonl_close is left. One thread.
 */
#ifndef JOBS_JSONL_H
#define JOBS_JSONL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "jobs/kind.h"

#define JSONL_LINE_MAX_BYTES (200u << 20)
#define JSONL_CUSTOM_ID_LONG_BYTES 64u /* some services stop here */

struct jsonl;

/* Up to n bytes into out: how many, 0 at the end, or a negative code with a sentence. */
typedef int64_t jsonl_read_fn(void *context, void *out, size_t n, struct error *e);

struct jsonl_line {
    uint64_t number; /* 1-based */
    struct str custom_id;
    const struct job_kind *kind;
    struct str body; /* one line of JSON; strings of the line are what they were, spaces are not */
};

/* Worth a note to the person who submits; not errors. */
struct jsonl_notes {
    uint64_t n_lines;          /* requests given out */
    uint64_t n_without_method; /* POST was assumed */
    uint64_t n_long_ids;       /* custom_id above JSONL_CUSTOM_ID_LONG_BYTES */
    uint64_t n_bare;
};

/* name is for messages. */
int jsonl_open(struct jsonl **ret, const char *name, jsonl_read_fn *read, void *context,
               struct error *e);
/* The descriptor stays the caller's. */
int jsonl_open_fd(struct jsonl **ret, const char *name, int fd, struct error *e);
void jsonl_close(struct jsonl *j); /* NULL is fine */
/* 1 with a line (its strings hold until the next call), 0 at the end, or a negative code. */
int jsonl_next(struct jsonl *j, struct jsonl_line *ret, struct error *e);
void jsonl_notes(const struct jsonl *j, struct jsonl_notes *ret);

#endif
