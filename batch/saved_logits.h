/*
 * A file of logits: what a model said about every scored token of a text, for comparing others with
 * it later, on machines where both do not fit.
 *
 * Layout, little-endian: "NOCTLOG2"; u32 vocabulary, window, windows, 0; the int32 ids of the windows;
 * then for each scored token, window after window, a row of float32 and the first 8 bytes of its
 * SHA-256. Rows are what the model gave, bit for bit.
 *
 * Stays true: a file appears under its name only when it is whole; one that is cut off, or that was
 * made of another text, vocabulary or window, is refused before any row is read, and a row that is not
 * what was written when it is. One thread.
 */
#ifndef BATCH_SAVED_LOGITS_H
#define BATCH_SAVED_LOGITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

struct saved_shape {
    uint32_t n_vocab, window, n_windows;
};
/* Tokens of a window that are scored: those of its second half, each from the position before it. */
uint32_t saved_scored(uint32_t window);

/* Whether the file begins like one of these; a file that cannot be read does not. */
bool saved_is(const char *path);

int saved_begin(struct file_replace *out, const char *path, const struct saved_shape *shape,
                const int32_t *ids, struct error *e);
int saved_write(const struct file_replace *out, const float *row, uint32_t n_vocab,
                struct error *e);

struct saved_reader {
    struct file file;
    uint64_t at; /* of the next row */
};
/* ids [window * n_windows]; the file may have more windows than are asked for. */
int saved_open(struct saved_reader *r, const char *path, const struct saved_shape *shape,
               const int32_t *ids, struct error *e);
int saved_read(struct saved_reader *r, float *row, uint32_t n_vocab, struct error *e);
void saved_close(struct saved_reader *r); /* a zeroed struct is fine */

#endif
