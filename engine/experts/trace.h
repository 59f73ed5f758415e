/*
 * Which experts a model asked for, as a file: what `nocturne trace` writes and bench/replay reads.
 *
 * All integers little-endian. A header of 96 bytes:
 *    0  8 bytes  "nocttrac"
 *    8  u32      version, 1
 *   12  u32      layers of the model
 *   16  u32      experts of a layer, at most 65535
 *   20  u32      experts that a row uses
 *   24  u64      bytes of a slot, which holds one expert
 *   32  64 bytes the model's fingerprint (engine.h), in hex
 * Then a record for each visit, in the order of the run: one layer of one step.
 *    0  u16      layer
 *    2  u16      n: distinct experts, 1 at least
 *    4  u32      rows of the step
 *    8  u16 * n  the experts, in the order they are asked for
 * The end is a record with layer 65535 and n 0, whose rows are the number of visits; nothing follows it.
 *
 * Stays true: a file that trace_read accepts keeps all of this; what was cut, or has one bad id, is
 * ERROR_FORMAT with the place. A writer leaves a whole file or none.
 */
#ifndef ENGINE_EXPERTS_TRACE_H
#define ENGINE_EXPERTS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define TRACE_VERSION 1u
#define TRACE_LAYERS_MAX 65535u
#define TRACE_EXPERTS_MAX 65535u

struct trace_header {
    uint32_t n_layers, n_experts, n_used;
    uint64_t slot_bytes;
    char fingerprint[65];
};

struct trace_visit {
    uint32_t layer, n_rows;
    uint32_t n;          /* at least 1 */
    const uint16_t *ids; /* [n] distinct */
};

struct trace_writer;

int trace_create(struct trace_writer **ret, const char *path, const struct trace_header *h,
                 struct error *e);
/* A failure is kept until trace_commit. */
void trace_add(struct trace_writer *w, uint32_t layer, uint32_t n_rows, const uint32_t *ids,
               uint32_t n);
/* The file is there, whole, or not at all; w is gone in either case. */
int trace_commit(struct trace_writer *w, struct error *e);
void trace_abort(struct trace_writer *w); /* NULL is fine */

struct trace {
    struct trace_header header;
    uint32_t n_visits;
    struct buf bytes;
};
/* Reads and checks the whole file. */
int trace_read(struct trace *ret, const char *path, struct error *e);
void trace_release(struct trace *t);
/* The next visit; *at is 0 before the first. False: there is none. */
bool trace_next(const struct trace *t, size_t *at, struct trace_visit *ret);

#endif
