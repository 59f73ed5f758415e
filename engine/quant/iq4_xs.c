#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_iq4_xs *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t sc[8];
        block_scales_iq4_xs(b, sc);
        float d = quant_f16_to_f32(b->d);
        for (int g = 0; g < 8; g++) {
            int8_t q[32];
            codes_iq4(b->qs + 16 * g, q);
            float scale = d * (float)sc[g];
            for (int j = 0; j < 32; j++)
                out[32 * g + j] = scale * (float)q[j];
        }
    }
}

/* The table's values, all alike: rms 67.44; scales -32..31, all alike: rms 18.48. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_iq4_xs *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    synth_bytes(&s, b->scales_l, sizeof(b->scales_l));
    synth_bytes(&s, &b->scales_h, sizeof(b->scales_h));
    b->d = synth_scale(&s, rms * (1.0f / (67.44f * 18.48f)), 1);
}

const struct quant quant_iq4_xs = {
    .name = "IQ4_XS",
    .index = QUANT_INDEX_iq4_xs,
    .ggml_id = 23,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_iq4_xs),
    .scale_at = offsetof(struct block_iq4_xs, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
