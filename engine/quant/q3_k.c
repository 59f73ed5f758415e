#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q3_k *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        int8_t sc[16];
        codes_q3_k(b, q);
        block_scales_q3_k(b->scales, sc);
        float d = quant_f16_to_f32(b->d);
        for (int g = 0; g < 16; g++) {
            float scale = d * (float)sc[g];
            for (int j = 16 * g; j < 16 * g + 16; j++)
                out[j] = scale * (float)q[j];
        }
    }
}

/* Codes -4..3, all alike: rms 2.345; scales -32..31, all alike: rms 18.48. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q3_k *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->hmask, sizeof(b->hmask));
    synth_bytes(&s, b->qs, sizeof(b->qs));
    synth_bytes(&s, b->scales, sizeof(b->scales));
    b->d = synth_scale(&s, rms * (1.0f / (2.345f * 18.48f)), 1);
}

const struct quant quant_q3_k = {
    .name = "Q3_K",
    .index = QUANT_INDEX_q3_k,
    .ggml_id = 11,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_q3_k),
    .scale_at = offsetof(struct block_q3_k, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
