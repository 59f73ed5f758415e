/*
 * Results as lines: one per final request, in one of three formats.
 *
 * Owns its scratch buffers and where the lines go: standard output, or files that appear whole when
 * export_commit renames them and not at all before. Stays true: lines of successes and of errors
 * together are the final requests; a success is exactly what has status 200. Memory does not grow
 * with the number of requests. One thread.
 */
#ifndef BATCH_EXPORT_H
#define BATCH_EXPORT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "batch/output.h"
#include "queue/queue.h"

enum export_format { EXPORT_OPENAI, EXPORT_JSONL, EXPORT_CSV };

/* One stream of lines. */
struct export_sink {
    struct output *out;       /* standard output, or NULL: */
    struct file_replace file; /* the new file */
    struct buf text;          /* not yet written to it */
    size_t n_unflushed;       /* bytes written that may stand in the page cache */
    bool open;
};

struct export
{
    enum export_format format;
    struct export_sink good;
    struct export_sink bad; /* open only where errors have a file of their own */
    struct buf line;
    uint64_t n_good, n_bad;
    uint64_t n_empty; /* of n_good: the answer says nothing */
};

/* ERROR_USAGE for an unknown name. */
int export_format_parse(const char *name, enum export_format *ret, struct error *e);
/* `path` and `errors` may be NULL: to `out`, and among the others. */
int export_begin(struct export *x, enum export_format format, const char *path, const char *errors,
                 struct output *out, struct error *e);
int export_put(struct export *x, const struct queue_result *r, struct error *e);
int export_commit(struct export *x, struct error *e);
void export_release(struct export *x); /* drops what was not committed */

#endif
