/*
 * Per-sequence state: attention caches in pages of 64 positions, from one pool planned at load.
 *
 * Owns the pool (through the ledger) and who holds which page. A sequence reserves what prompt +
 * max_tokens need when it is admitted; nothing grows later.
 * A page is KV_PAGE positions of one layer: keys [KV_PAGE][n_kv_heads * head_dim], then values
 * [KV_PAGE][n_kv_heads * value_dim], f16 (exact: f32). It is attention's block of keys. Latent
 * attention has one row a position, its values part of it: v_dim 0.
 * Recurrent layers carry a block of fixed size a sequence, f32 always, zero when it is reserved.
 *
 * Stays true: pages of a sequence are in order of position; a page has one owner. "Layer" here counts
 * the layers of that kind of state (struct layer's `state`).
 */
#ifndef ENGINE_KV_KV_H
#define ENGINE_KV_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ledger.h"

struct kv_shape {
    uint32_t n_layers; /* with pages */
    uint32_t k_dim;    /* floats of a position's keys in one layer: n_kv_heads * head_dim */
    uint32_t v_dim;
    bool f32;                  /* exact mode; f16 otherwise */
    uint32_t n_recurrent;      /* layers */
    uint32_t recurrent_floats; /* of one layer and sequence */
};

struct kv_pool;

/* Bytes of pages that n_positions of one sequence take: whole pages in every layer. */
uint64_t kv_sequence_bytes(const struct kv_shape *shape, uint32_t n_positions);
/* Bytes of one sequence's recurrent states, whatever its length. */
uint64_t kv_recurrent_bytes(const struct kv_shape *shape);
/* Pages (each: one layer, KV_PAGE positions) that n_positions need. */
uint32_t kv_pages_needed(const struct kv_shape *shape, uint32_t n_positions);

/* Bytes of the pool's tables and recurrent states, beside `bytes`: part of the plan's state term. */
uint64_t kv_pool_overhead_bytes(const struct kv_shape *shape, uint64_t bytes,
                                uint32_t max_sequences, uint32_t max_positions);

/* Takes `bytes` of pages (rounded down to whole groups) and the tables beside them. */
int kv_pool_new(struct kv_pool **ret, struct ledger *l, const struct kv_shape *shape,
                uint64_t bytes, uint32_t max_sequences, uint32_t max_positions, struct error *e);
void kv_pool_free(struct kv_pool *p);

/* A sequence's state: -1 when there are not enough pages or handles left, else a slot. */
int kv_reserve(struct kv_pool *p, uint32_t n_positions);
void kv_release(struct kv_pool *p, int slot);
/* As it was reserved: recurrent states are zero. */
void kv_clear(struct kv_pool *p, int slot);

/* Where page `page` of a layer of that sequence stands. */
void *kv_keys(const struct kv_pool *p, int slot, uint32_t layer, uint32_t page);
void *kv_values(const struct kv_pool *p, int slot, uint32_t layer, uint32_t page);
/* [recurrent_floats] of a recurrent layer of that sequence. */
float *kv_recurrent(const struct kv_pool *p, int slot, uint32_t layer);

/*
 * A layer's state of a sequence, to save it or to restore it bit for bit: ranges of bytes in an order that
 * depends on the shape and on n_positions only, whatever slot and pages hold them. Of a layer with pages:
 * its first n_positions, for which the slot must have room; rows beyond are no part of it.
 */
uint64_t kv_layer_bytes(const struct kv_shape *shape, uint32_t n_positions);
uint64_t kv_recurrent_layer_bytes(const struct kv_shape *shape);
/* at: the state itself, to be read or to be written. A result other than 0 ends the visit. */
typedef int kv_visit_fn(void *context, void *at, size_t bytes, struct error *e);
int kv_visit(const struct kv_pool *p, int slot, uint32_t layer, uint32_t n_positions,
             kv_visit_fn *fn, void *context, struct error *e);
int kv_visit_recurrent(const struct kv_pool *p, int slot, uint32_t layer, kv_visit_fn *fn,
                       void *context, struct error *e);

#endif
