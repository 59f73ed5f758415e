/*
 * Private to engine/experts: how many reads in flight this disk wants, measured on the model's own files.
 *
 * Each depth reads for a moment what visits will read, random matrices of experts, in turns and twice; the
 * deepest whose better turn comes near the best is taken: what is in the disk's queue needs no thread of ours
 * to be scheduled in time. It changes when bytes come, never which.
 * Bounded by DEPTH_US in all, and one read in flight each.
 */
#ifndef ENGINE_EXPERTS_DEPTH_H
#define ENGINE_EXPERTS_DEPTH_H

#include "engine/experts/io.h"
#include "engine/experts/slots.h"

#define DEPTH_US 200000

/*
 * Reads into the slots, which are all empty; way and files are those of io. 0: nothing could be measured, the
 * way's own is as good. *ret_bytes is what it read.
 */
uint32_t depth_measure(const struct io_options *io, const struct slots *slots, uint64_t *ret_bytes);

#endif
