#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q2_k *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        codes_q2_k(b, q);
        float d = quant_f16_to_f32(b->d);
        float dmin = quant_f16_to_f32(b->dmin);
        for (int g = 0; g < 16; g++) {
            float scale = d * (float)(b->scales[g] & 15);
            float min = dmin * (float)(b->scales[g] >> 4);
            for (int j = 16 * g; j < 16 * g + 16; j++)
                out[j] = scale * (float)q[j] - min;
        }
    }
}

/*
 * Codes 0..3 about their middle have rms 1.118; scales 8..15 have rms 11.726. The minimum of a group
 * is its scale, so that dmin = 1.5 d puts zero in the middle of the codes.
 */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q2_k *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    synth_bytes(&s, b->scales, sizeof(b->scales));
    for (int g = 0; g < 16; g++) {
        int scale = 8 | (b->scales[g] & 7);
        b->scales[g] = (uint8_t)(scale | scale << 4);
    }
    b->d = synth_scale(&s, rms * (1.0f / (1.118f * 11.726f)), 0);
    b->dmin = quant_f32_to_f16(1.5f * quant_f16_to_f32(b->d));
}

const struct quant quant_q2_k = {
    .name = "Q2_K",
    .index = QUANT_INDEX_q2_k,
    .ggml_id = 10,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_q2_k),
    .scale_at = offsetof(struct block_q2_k, d),
    .n_scales = 2,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
