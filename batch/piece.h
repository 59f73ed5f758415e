/*
 * What the worker saves as a running job's progress: pieces of new tokens with their text.
 *
 * A piece is a little-endian 32-bit length of text, the text, and one chunk of jobs/progress. The ids
 * are what the next attempt resumes from; the text is there for people who watch (`tail`), because it
 * cannot be had from ids without the model. Progress is any number of pieces, so it grows by
 * appending.
 * Stays true: reading what was written gives the same ids and text in order; anything torn is
 * ERROR_FORMAT. Owns nothing; any thread.
 */
#ifndef BATCH_PIECE_H
#define BATCH_PIECE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

int piece_put(struct buf *out, struct str text, const int32_t *token, size_t n, struct error *e);
/* Appends ids (int32_t of this machine) and text; either may be NULL. */
int piece_read(struct str bytes, struct buf *tokens, struct buf *text, struct error *e);

#endif
