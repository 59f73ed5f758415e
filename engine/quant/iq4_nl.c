#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_iq4_nl *b = blocks;
    for (; n > 0; n -= 32, out += 32, b++) {
        int8_t q[32];
        codes_iq4(b->qs, q);
        float d = quant_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)q[j];
    }
}

/* The table's values, all alike: rms 67.44. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_iq4_nl *b = block;
    struct synth s = synth_begin(seed, index);
    b->d = synth_scale(&s, rms * (1.0f / 67.44f), 1);
    synth_bytes(&s, b->qs, sizeof(b->qs));
}

const struct quant quant_iq4_nl = {
    .name = "IQ4_NL",
    .index = QUANT_INDEX_iq4_nl,
    .ggml_id = 20,
    .block_elems = 32,
    .block_bytes = sizeof(struct block_iq4_nl),
    .scale_at = offsetof(struct block_iq4_nl, d),
    .n_scales = 1,
    .act = ACT_Q8,
    .decode = decode,
    .synthesise = synthesise,
};
