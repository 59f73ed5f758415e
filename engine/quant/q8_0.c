#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q8_0 *b = blocks;
    for (; n > 0; n -= 32, out += 32, b++) {
        float d = quant_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)b->qs[j];
    }
}

/* Codes -128..127, all alike: rms 73.901962. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q8_0 *b = block;
    struct synth s = synth_begin(seed, index);
    b->d = synth_scale(&s, rms * (1.0f / 73.901962f), 1);
    synth_bytes(&s, b->qs, sizeof(b->qs));
}

const struct quant quant_q8_0 = {
    .name = "Q8_0",
    .index = QUANT_INDEX_q8_0,
    .ggml_id = 8,
    .block_elems = 32,
    .block_bytes = sizeof(struct block_q8_0),
    .scale_at = offsetof(struct block_q8_0, d),
    .n_scales = 1,
    .act = ACT_Q8,
    .decode = decode,
    .synthesise = synthesise,
};
