#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q4_k *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        codes_q4_k(b->qs, q);
        block_values_k4(q, b->scales, quant_f16_to_f32(b->d), quant_f16_to_f32(b->dmin), out);
    }
}

/*
 * Codes about their middle have rms 4.61; with equal scales and minima dmin = 7.5 d puts zero in the middle of the codes.
 */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q4_k *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    synth_scales_k4(&s, b->scales);
    b->d = synth_scale(&s, rms * (1.0f / (4.61f * 36.54f)), 0);
    b->dmin = quant_f32_to_f16(7.5f * quant_f16_to_f32(b->d));
}

const struct quant quant_q4_k = {
    .name = "Q4_K",
    .index = QUANT_INDEX_q4_k,
    .ggml_id = 12,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_q4_k),
    .scale_at = offsetof(struct block_q4_k, d),
    .n_scales = 2,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
