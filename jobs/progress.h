/*
 * Generated tokens as the opaque bytes that the queue keeps for a running job.
 *
 * A chunk is a little-endian 32-bit count (at least 1) and that many 32-bit token ids; progress is
 * any number of chunks, one after the other, so it grows by appending. The queue writes chunks
 * whole; the counts are there to notice when that was not so.
 * Stays true: reading what was written gives the same tokens in order; anything torn, a count of 0
 * or a negative id is ERROR_FORMAT. Owns nothing; any thread.
 */
#ifndef JOBS_PROGRESS_H
#define JOBS_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

/* Appends one chunk; n 0 appends nothing. */
int job_progress_put(struct buf *out, const int32_t *token, size_t n, struct error *e);
/* Appends the tokens as int32_t of this machine to `tokens`; *ret_n is how many. */
int job_progress_read(struct str bytes, struct buf *tokens, size_t *ret_n, struct error *e);

#endif
