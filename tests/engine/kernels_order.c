/*
 * The documented orders of summation (kernels.h, dense.h), as scalar models that must give every table's
 * bits. A table that this processor lacks is a visible skip; the models of its order are the ones that the
 * other tables pass.
 *
 * Integer sums of a block have no order. They are taken from the generic table, exactly: with 1 in place
 * of a block's scale and of the activation's, and 0 in place of all others, a product is such a sum.
 */
#include "base/alloc.h"
#include "engine/quant/blocks.h"
#include "tests/engine/kernels.h"

enum { N_COLS = 512, N_OUT = 19, N_ROWS = 3, ACTS_MAX = N_COLS / 32, ROW_MAX = N_COLS * 4 };

/* One weight row and activation row. */
struct order_case {
    const struct quant *quant;
    const uint8_t *w;
    union {
        struct act_q8 q8[ACTS_MAX];
        struct act_q8k q8k[N_COLS / 256];
        float f32[N_COLS];
    } x;
};

static size_t n_scales(const struct quant *q)
{
    if (q->index == QUANT_INDEX_nvfp4)
        return 4;
    return q->n_scales ? q->n_scales : 1;
}

static float byte_scale(const struct quant *q, uint8_t byte)
{
    return q->index == QUANT_INDEX_nvfp4 ? block_scale_nvfp4(byte) : block_scale_mxfp4(byte);
}

static bool scales_are_bytes(const struct quant *q)
{
    return q->index == QUANT_INDEX_nvfp4 || q->index == QUANT_INDEX_mxfp4;
}

static float scale_get(const struct quant *q, const uint8_t *block, size_t i)
{
    uint16_t half;
    if (scales_are_bytes(q))
        return byte_scale(q, block[i]);
    if (q->index == QUANT_INDEX_iq1_m)
        return quant_f16_to_f32(block_scale_iq1_m((const struct block_iq1_m *)block));
    memcpy(&half, block + q->scale_at + 2 * i, sizeof(half));
    return quant_f16_to_f32(half);
}

static void scale_set_half(const struct quant *q, uint8_t *block, size_t i, uint16_t half)
{
    if (q->index != QUANT_INDEX_iq1_m) {
        memcpy(block + q->scale_at + 2 * i, &half, sizeof(half));
        return;
    }
    for (int word = 0; word < 4; word++) { /* a nibble above each word of scales */
        uint8_t *high = block + offsetof(struct block_iq1_m, scales) + 2 * word + 1;
        *high = (uint8_t)((*high & 15) | (half >> 4 * word & 15) << 4);
    }
}

/* Of bytes the one that stands for what is nearest: formats have 0 (or nearly) and 1. */
static void scale_set(const struct quant *q, uint8_t *block, size_t i, float value)
{
    uint8_t best = 0;
    if (!scales_are_bytes(q)) {
        scale_set_half(q, block, i, quant_f32_to_f16(value));
        return;
    }
    for (int byte = 1; byte < 255; byte++)
        if (fabsf(byte_scale(q, (uint8_t)byte) - value) < fabsf(byte_scale(q, best) - value))
            best = (uint8_t)byte;
    block[i] = best;
}

static float act_scale(const struct order_case *c, size_t b)
{
    return c->quant->act == ACT_Q8 ? c->x.q8[b].d : c->x.q8k[b].d;
}

/* What activation block b adds where scale i of the weights is 1: an integer, rounded to f32. */
static float integer_sum(const struct order_case *c, size_t b, size_t i)
{
    static uint8_t w[ROW_MAX];
    struct order_case one = *c;
    float y;
    size_t w_bytes = quant_row_bytes(c->quant, N_COLS);
    memcpy(w, c->w, w_bytes);
    for (size_t at = 0; at < w_bytes; at += c->quant->block_bytes)
        for (size_t j = 0; j < n_scales(c->quant); j++)
            scale_set(c->quant, w + at, j, j == i ? 1.0f : 0.0f);
    for (size_t j = 0; j < ACTS_MAX && c->quant->act == ACT_Q8; j++)
        one.x.q8[j].d = j == b ? 1.0f : 0.0f;
    for (size_t j = 0; j < N_COLS / 256 && c->quant->act == ACT_Q8K; j++)
        one.x.q8k[j].d = j == b ? 1.0f : 0.0f;
    struct matmul m = {.quant = c->quant,
                       .w = w,
                       .w_row_bytes = w_bytes,
                       .x = &one.x,
                       .x_row_bytes = sizeof(one.x),
                       .n_cols = N_COLS,
                       .n_rows = 1,
                       .y = &y,
                       .y_stride = 1};
    kernels_generic.matmul[c->quant->index](&m, 0, 1);
    return y;
}

/* a * b + c, rounded once where a table fuses. */
static float multiply_add(bool fused, float a, float b, float c)
{
    return fused ? fmaf(a, b, c) : a * b + c;
}

/* The order of kernels.h for formats with blocks. */
static float model_blocks(const struct order_case *c, bool fused)
{
    const struct quant *q = c->quant;
    const size_t act_elems = q->act == ACT_Q8 ? 32 : 256;
    float acc = 0;
    for (size_t b = 0; b < N_COLS / act_elems; b++) {
        const uint8_t *block = c->w + b * act_elems / q->block_elems * q->block_bytes;
        size_t i = q->index == QUANT_INDEX_nvfp4 ? 2 * (b % 2) : 0;
        float d = scale_get(q, block, i);
        float sum = integer_sum(c, b, i);
        float t = d * sum;
        if (n_scales(q) > 1) {
            float d1 = scale_get(q, block, i + 1);
            float sum1 = integer_sum(c, b, i + 1); /* of super-blocks: less the minima's */
            t = q->act == ACT_Q8 && q->n_scales == 2 ? multiply_add(fused, d, sum, d1 * sum1)
                                                     : multiply_add(fused, d1, sum1, d * sum);
        }
        acc = multiply_add(fused, act_scale(c, b), t, acc);
    }
    return acc;
}

static float dense_weight(const struct order_case *c, size_t k)
{
    uint16_t half;
    float f;
    memcpy(&half, c->w + 2 * k, sizeof(half));
    if (c->quant->index == QUANT_INDEX_f16)
        return quant_f16_to_f32(half);
    if (c->quant->index == QUANT_INDEX_bf16)
        return quant_bf16_to_f32(half);
    memcpy(&f, c->w + 4 * k, sizeof(f));
    return f;
}

/* The order of dense.h for formats without blocks. */
static float model_dense(const struct order_case *c, bool fused, size_t n_lanes)
{
    float lane[16] = {0};
    for (size_t k = 0; k < N_COLS; k++)
        lane[k % n_lanes] = multiply_add(fused, dense_weight(c, k), c->x.f32[k], lane[k % n_lanes]);
    for (size_t i = 0; i < 8 && n_lanes == 16; i++)
        lane[i] += lane[8 + i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static float model(const struct kernels *k, const struct order_case *c)
{
    bool fused = k != &kernels_generic;
    if (c->quant->block_elems > 1)
        return model_blocks(c, fused);
    return model_dense(c, fused, strcmp(k->name, "avx512") == 0 ? 16 : 8);
}

/* Random codes; scales of every size and sign, 0 and subnormal ones too, that stay finite. */
static void fill_weights(const struct quant *q, uint8_t *w, uint64_t seed)
{
    size_t n_bytes = N_OUT * quant_row_bytes(q, N_COLS);
    if (q->block_elems == 1) {
        for (size_t i = 0; i < N_OUT * N_COLS; i++)
            q->synthesise(w + i * q->block_bytes, seed, i, 0.1f);
        return;
    }
    for (size_t i = 0; i < n_bytes; i++)
        w[i] = (uint8_t)rng_u64(seed, i);
    for (size_t at = 0; at < n_bytes; at += q->block_bytes) {
        for (size_t i = 0; i < n_scales(q); i++) {
            uint64_t random = rng_u64(seed + 1, at + i);
            if (scales_are_bytes(q))
                w[at + i] = (uint8_t)(q->index == QUANT_INDEX_mxfp4 ? 90 + random % 80 : random);
            else
                scale_set_half(q, w + at, i, (uint16_t)(random & 0xbfff));
        }
    }
}

static void check_order(const struct kernels *k, const struct quant *q, uint64_t seed, float range)
{
    static uint8_t w[N_OUT * ROW_MAX];
    static struct order_case c[N_ROWS];
    static float x[N_COLS];
    float y[N_ROWS][N_OUT];
    float alone[N_OUT];
    size_t w_bytes = quant_row_bytes(q, N_COLS);
    fill_weights(q, w, seed);
    for (uint64_t r = 0; r < N_ROWS; r++) {
        random_floats(seed + 2 + r, x, N_COLS, range);
        c[r].quant = q;
        k->act_quantise[q->act](x, &c[r].x, N_COLS);
    }
    struct matmul m = {.quant = q,
                       .w = w,
                       .w_row_bytes = w_bytes,
                       .x = &c[0].x,
                       .x_row_bytes = sizeof(c[0]),
                       .n_cols = N_COLS,
                       .n_rows = N_ROWS,
                       .y = y[0],
                       .y_stride = N_OUT};
    k->matmul[q->index](&m, 0, N_OUT);
    m.n_rows = 1;
    m.y = alone;
    k->matmul[q->index](&m, 0, N_OUT);
    for (size_t r = 0; r < N_ROWS; r++) {
        for (size_t i = 0; i < N_OUT; i++) {
            c[r].w = w + i * w_bytes;
            float want = model(k, &c[r]);
            CHECK(isfinite(want));
            if (memcmp(&y[r][i], &want, sizeof(want)) != 0 || (r == 0 && alone[i] != want))
                test_fail(__FILE__, __LINE__, "%s: output %zu of row %zu is %a, the order's %a",
                          q->name, i, r, (double)y[r][i], (double)want);
        }
    }
}

static void obeys_the_documented_order(const struct kernels *k)
{
    static const float range[] = {1.0f, 3e4f};
    for (int q = 0; q < QUANT_COUNT; q++)
        for (size_t i = 0; i < ARRAY_LEN(range); i++)
            check_order(k, quants[q], 100 * (uint64_t)q + i, range[i]);
}
KERNELS_TEST(obeys_the_documented_order)
