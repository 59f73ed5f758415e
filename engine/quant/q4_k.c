#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q4_k *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        uint8_t sc[8];
        uint8_t mn[8];
        codes_q4_k(b->qs, q);
        block_scales_k4(b->scales, sc, mn);
        float d = quant_f16_to_f32(b->d);
        float dmin = quant_f16_to_f32(b->dmin);
        for (int g = 0; g < 8; g++) {
            float scale = d * (float)sc[g];
            float min = dmin * (float)mn[g];
            for (int j = 32 * g; j < 32 * g + 32; j++)
                out[j] = scale * (float)q[j] - min;
        }
    }
}

/*
 * Codes about their middle have rms 4.61. Bytes g and g + 4 of the scales are the scale and the
 * minimum of group g < 4, the nibbles of byte g + 8 and the top bits above those of group g + 4:
 * with both equal, dmin = 7.5 d puts zero in the middle of the codes. Scales 0..63: rms 36.54.
 */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q4_k *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    synth_bytes(&s, b->scales, sizeof(b->scales));
    for (int g = 0; g < 4; g++) {
        b->scales[g + 4] = b->scales[g];
        b->scales[g + 8] = (uint8_t)((b->scales[g + 8] & 15) * 0x11);
    }
    b->d = synth_scale(&s, rms * (1.0f / (4.61f * 36.54f)), 0);
    b->dmin = quant_f32_to_f16(7.5f * quant_f16_to_f32(b->d));
}

const struct quant quant_q4_k = {
    .name = "Q4_K",
    .index = QUANT_INDEX_q4_k,
    .ggml_id = 12,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_q4_k),
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
