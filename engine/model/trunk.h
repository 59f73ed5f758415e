/*
 * Layers that do not fit: the last ones of a model, read again for every step, ahead of their turn.
 *
 * Owns a ring of places for whole layers (from the ledger), the threads that read into them and the open
 * files. Steps take the layers in order, so what was used last is needed last: a cache would drop each
 * layer just before its turn, and a prefix that stays (model_load) with a ring for the rest is the best
 * that can be done. While one layer is at work the next is being read; after the last one comes the
 * first of the next step.
 *
 *   place:  FREE -> READING -> SETTLING -> READY -> FREE
 *              ^        \__________\____-> FAILED      two tries; the step fails then
 *
 * Stays true: a layer that is given out holds all of what its file holds, in the form that is computed
 * with, and has passed the check of model_load; its bits are those of a layer that stays. Nothing
 * spins: who waits blocks.
 *
 * trunk_acquire and trunk_release are called by one thread; the readers are the ring's own. They are not
 * those of engine/experts/io.h: who brings a layer's last piece also checks it and brings it into its form,
 * which would hold up the one thread of an io_uring, and a few large reads in a row need no more threads.
 */
#ifndef ENGINE_MODEL_TRUNK_H
#define ENGINE_MODEL_TRUNK_H

#include "engine/model/model.h"

/* A ring and fewer layers than this take as much as the layers. */
#define TRUNK_LEAST_STREAMED 3u

/* Bytes of the ring for the last n_streamed layers; 0: there is none. */
uint64_t trunk_ring_bytes(const struct model *m, uint32_t n_streamed);
/* Bytes that a step reads, in whole blocks of FILE_DIRECT_ALIGN: of a file with finer ones a little less. */
uint64_t trunk_step_bytes(const struct model *m, uint32_t n_streamed);
/*
 * How many layers to stream so that all weights but experts take no more than `bytes`: the fewest; where
 * that is not to be had, what takes least.
 */
uint32_t trunk_choose_streamed(const struct model *m, uint64_t bytes);

struct trunk;

/*
 * Over a loaded model, and begins to read. *ret NULL: every layer stays. n_reads counts reads as they come
 * back, from the threads that read; NULL: nobody wants to know.
 */
int trunk_open(struct trunk **ret, const struct model *m, struct ledger *l,
               _Atomic uint64_t *n_reads, struct error *e);
void trunk_close(struct trunk *t); /* NULL is fine */

/*
 * Layer il with its weights, until trunk_release or the next acquire. Cheapest in order of layers, round
 * and round; any other order throws away what was read ahead.
 */
int trunk_acquire(struct trunk *t, uint32_t il, const struct layer **ret, struct error *e);
void trunk_release(struct trunk *t);

struct trunk_counters {
    uint64_t bytes_read; /* whole aligned blocks */
    uint64_t wait_us;    /* steps stood waiting for a layer */
};
void trunk_counters(struct trunk *t, struct trunk_counters *ret);
/* How often the reading of a layer failed in that file. */
uint32_t trunk_failures(struct trunk *t, uint32_t shard);

#endif
