/*
 * Attention of several queries over one page, the part that every ISA shares. Internal to cpu.
 *
 * Both products, scores (q . k) and values (weight . v), have one form: rows of A times a block B of
 * at most 64 x 64 f32 (16 KiB, in the first-level cache), which is converted from the cache's f16
 * once and then serves all queries. An ISA brings the four functions that take time.
 *
 * Order, whatever the number of queries:
 *  - a score has one accumulator, dimensions ascending from 0; the scale comes last;
 *  - a value has one accumulator, keys ascending from 0 to the last that its query sees;
 *  - the ISA says how a product is added (FMA or two roundings) and in which order weights are summed.
 */
#ifndef ENGINE_KERNELS_CPU_ATTENTION_H
#define ENGINE_KERNELS_CPU_ATTENTION_H

#include "engine/kernels/kernels.h"

#define ATTENTION_SIDE 64 /* of B: dimensions by keys (scores) or keys by dimensions (values) */
_Static_assert(ATTENTION_SIDE == KV_PAGE, "a side of the block is a page of keys");

typedef float attention_block[ATTENTION_SIDE]; /* a row of B; B starts at a multiple of 64 bytes */

/* One query's part of a product: c[j] += a[s] * b[s][j], for s ascending from 0 to n_steps. */
struct attention_row {
    const float *a;
    float *c;
    size_t n_steps;
};

struct attention_parts {
    size_t tile_rows; /* that multiply takes at once */
    /* b[i][j] = dimension c + i of key j, i < n_dims; j up to n_keys, and rounded up to 16 anything. */
    void (*load_keys)(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                      attention_block *b);
    /* b[j][i] = dimension c + i of value j; from n_dims rounded up to 16 anything. */
    void (*load_values)(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                        attention_block *b);
    /*
     * The product of up to tile_rows rows over steps [first, last), which all of them have, for columns
     * [0, n_cols), n_cols a multiple of 16.
     */
    void (*multiply)(const struct attention_row *rows, size_t n, size_t first, size_t last,
                     size_t n_cols, attention_block *b);
    /*
     * score [KV_PAGE], at a multiple of 64 bytes, of which n_keys are valid, becomes
     * exp(scale * score - max); returns their sum.
     */
    float (*weigh)(float *score, size_t n_keys, float scale, float *ret_max);
};

void attention_run(const struct attention_page *a, const struct attention_parts *parts);

#endif
