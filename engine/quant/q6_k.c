#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q6_k *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        codes_q6_k(b, q);
        float d = quant_f16_to_f32(b->d);
        for (int g = 0; g < 16; g++) {
            float scale = d * (float)b->scales[g];
            for (int j = 16 * g; j < 16 * g + 16; j++)
                out[j] = scale * (float)q[j];
        }
    }
}

/* Codes -32..31, all alike: rms 18.48; scales -128..127, all alike: rms 73.90. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q6_k *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->ql, sizeof(b->ql));
    synth_bytes(&s, b->qh, sizeof(b->qh));
    synth_bytes(&s, b->scales, sizeof(b->scales));
    b->d = synth_scale(&s, rms * (1.0f / (18.48f * 73.90f)), 1);
}

const struct quant quant_q6_k = {
    .name = "Q6_K",
    .index = QUANT_INDEX_q6_k,
    .ggml_id = 14,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_q6_k),
    .scale_at = offsetof(struct block_q6_k, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
