/*
 * Private to engine/experts: how many reads in flight this disk wants, measured on the model's own files.
 *
 * Each depth reads for a moment what visits will read, random matrices of experts, in turns and twice; the
 * deepest whose better turn comes near the best is taken: what is in the disk's queue needs no thread of ours
 * to be scheduled in time. It changes when bytes come, never which.
 * Bounded by PROBE_US in all, and one read in flight each.
 */
#ifndef ENGINE_EXPERTS_PROBE_H
#define ENGINE_EXPERTS_PROBE_H

#include "engine/experts/io.h"

#define PROBE_US 200000

struct probe_options {
    struct io_options io; /* way, files; memory is not registered for it */
    /* The i-th read, into place i % n_places; what is there is of no use to anybody. */
    void (*read)(const void *context, uint64_t i, struct io_read *ret);
    const void *context;
    uint32_t n_places; /* no deeper than that */
};

/* 0: nothing could be measured, the way's own is as good. *ret_bytes is what it read. */
uint32_t probe_depth(const struct probe_options *o, uint64_t *ret_bytes);

#endif
