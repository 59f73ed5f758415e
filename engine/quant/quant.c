#include "engine/quant/quant.h"

#include <string.h>
#include <strings.h>

const struct quant *const quants[QUANT_COUNT] = {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = &quant_##ident,
#include "engine/quant/quants.def"
#undef QUANT
};

/* Names of all of ggml's types, so that a refusal can say which one a file has. */
static const char *const id_names[] = {
    [0] = "F32",     [1] = "F16",      [2] = "Q4_0",   [3] = "Q4_1",    [6] = "Q5_0",
    [7] = "Q5_1",    [8] = "Q8_0",     [9] = "Q8_1",   [10] = "Q2_K",   [11] = "Q3_K",
    [12] = "Q4_K",   [13] = "Q5_K",    [14] = "Q6_K",  [15] = "Q8_K",   [16] = "IQ2_XXS",
    [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",
    [22] = "IQ2_S",  [23] = "IQ4_XS",  [24] = "I8",    [25] = "I16",    [26] = "I32",
    [27] = "I64",    [28] = "F64",     [29] = "IQ1_M", [30] = "BF16",   [34] = "TQ1_0",
    [35] = "TQ2_0",  [39] = "MXFP4",   [40] = "NVFP4", [41] = "Q1_0",   [42] = "Q2_0",
};

const struct quant *quant_by_id(uint32_t ggml_id)
{
    for (int i = 0; i < QUANT_COUNT; i++) {
        if (quants[i]->ggml_id == ggml_id)
            return quants[i];
    }
    return NULL;
}

const struct quant *quant_by_name(const char *name)
{
    for (int i = 0; i < QUANT_COUNT; i++) {
        if (strcasecmp(quants[i]->name, name) == 0)
            return quants[i];
    }
    return NULL;
}

const char *quant_id_name(uint32_t ggml_id)
{
    return ggml_id < sizeof(id_names) / sizeof(id_names[0]) ? id_names[ggml_id] : NULL;
}

size_t quant_row_bytes(const struct quant *q, uint64_t n)
{
    return (size_t)(n / q->block_elems) * q->block_bytes;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

bool quant_finite(const struct quant *q, const void *blocks, size_t n)
{
    const char *scale = (const char *)blocks + q->scale_at;
    uint32_t bad = 0;
    if (q->finite)
        return q->finite(blocks, n);
    for (size_t i = 0; i < n; i++, scale += q->block_bytes) {
        for (size_t j = 0; j < q->n_scales; j++) {
            uint16_t half;
            memcpy(&half, scale + j * sizeof(half), sizeof(half));
            bad |= (half & 0x7c00) == 0x7c00;
        }
    }
    return !bad;
}

float quant_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t rest = h & 0x7fff;
    if (rest > 0x7c00) /* quiet, as the hardware does */
        return float_of(sign | 0x7fc00000 | rest << 13);
    if (rest == 0x7c00)
        return float_of(sign | 0x7f800000);
    if (rest >= 0x0400)
        return float_of(sign | (rest + ((127 - 15) << 10)) << 13);
    return float_of(sign | bits_of((float)rest * 0x1p-24f));
}

uint16_t quant_f32_to_f16(float f)
{
    uint32_t bits = bits_of(f);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* 65520: rounds to infinity */
        return sign | 0x7c00;
    if (rest < 0x38800000) /* below 2^-14: the addition's own rounding at a ulp of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - ((127 - 15) << 23)) >> 13);
}

float quant_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t quant_f32_to_bf16(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
