/*
 * Weight formats: what a block looks like and what its numbers are.
 *
 * Owns no memory. One const descriptor a format (quants.def); a format is always a pointer to its
 * descriptor, never an integer that code switches on. Speed is not here: see engine/kernels.
 *
 * Stays true: decode gives ggml's to_float to the last bit (engine-spec 5.7: f32 arithmetic, the
 * order d*scale first); every bit pattern of a block decodes without undefined behaviour.
 */
#ifndef ENGINE_QUANT_QUANT_H
#define ENGINE_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The form of an activation row that a format's dot product takes. */
enum act_kind {
    ACT_F32, /* as it is */
    ACT_Q8,  /* blocks of 32: struct act_q8 (kernels.h) */
    ACT_Q8K, /* super-blocks of 256: struct act_q8k */
    ACT_KINDS
};

enum quant_index {
#define QUANT(ident, id, elems, bytes, partner) QUANT_INDEX_##ident,
#include "engine/quant/quants.def"
#undef QUANT
    QUANT_COUNT
};

struct quant {
    const char *name; /* "Q4_K" */
    enum quant_index index;
    uint32_t ggml_id;
    uint32_t block_elems;
    uint32_t block_bytes;
    /* The binary16 numbers that everything in a block is multiplied with or added to. */
    uint16_t scale_at, n_scales;
    enum act_kind act;
    /* n elements (a multiple of block_elems) from blocks to out [n]. */
    void (*decode)(const void *blocks, float *out, size_t n);
    /* Whether n blocks decode to finite numbers, where other bits than such scales say it; else NULL. */
    bool (*finite)(const void *blocks, size_t n);
    /*
     * Writes one valid block of random weights whose decoded values have about the given rms: a pure
     * function of (seed, index of the block). For test models; not a quantiser.
     */
    void (*synthesise)(void *block, uint64_t seed, uint64_t index, float rms);
};

#define QUANT(ident, id, elems, bytes, partner) extern const struct quant quant_##ident;
#include "engine/quant/quants.def"
#undef QUANT
extern const struct quant *const quants[QUANT_COUNT];

const struct quant *quant_by_id(uint32_t ggml_id);   /* NULL: unknown or not supported */
const struct quant *quant_by_name(const char *name); /* any case; NULL: unknown */
const char *
quant_id_name(uint32_t ggml_id); /* also of formats that are not supported; NULL: no such id */
/* Bytes of n elements; n must be a multiple of block_elems. */
size_t quant_row_bytes(const struct quant *q, uint64_t n);

/* Whether n blocks decode to finite numbers; from their scales, without decoding. */
bool quant_finite(const struct quant *q, const void *blocks, size_t n);

/* IEEE binary16 and bfloat16, conversions round to nearest even. */
float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float f);
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float f);

#endif
