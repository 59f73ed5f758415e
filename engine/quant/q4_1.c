#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q4_1 *b = blocks;
    for (; n > 0; n -= 32, out += 32, b++) {
        int8_t q[32];
        codes_nibbles(b->qs, 0, q);
        float d = quant_f16_to_f32(b->d);
        float m = quant_f16_to_f32(b->m);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)q[j] + m;
    }
}

/* Codes 0..15 about their middle: rms 4.609772. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q4_1 *b = block;
    struct synth s = synth_begin(seed, index);
    float d = rms * (1.0f / 4.609772f);
    b->d = synth_scale(&s, d, 0);
    b->m = quant_f32_to_f16(-7.5f * quant_f16_to_f32(b->d)); /* the middle code is 0 */
    synth_bytes(&s, b->qs, sizeof(b->qs));
}

const struct quant quant_q4_1 = {
    .name = "Q4_1",
    .index = QUANT_INDEX_q4_1,
    .ggml_id = 3,
    .block_elems = 32,
    .block_bytes = sizeof(struct block_q4_1),
    .scale_at = offsetof(struct block_q4_1, d),
    .n_scales = 2,
    .act = ACT_Q8,
    .decode = decode,
    .synthesise = synthesise,
};
