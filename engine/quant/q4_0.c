#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q4_0 *b = blocks;
    for (; n > 0; n -= 32, out += 32, b++) {
        int8_t q[32];
        codes_nibbles(b->qs, 8, q);
        float d = quant_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)q[j];
    }
}

/* Codes -8..7, all alike: rms 4.636809. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q4_0 *b = block;
    struct synth s = synth_begin(seed, index);
    b->d = synth_scale(&s, rms * (1.0f / 4.636809f), 1);
    synth_bytes(&s, b->qs, sizeof(b->qs));
}

const struct quant quant_q4_0 = {
    .name = "Q4_0",
    .index = QUANT_INDEX_q4_0,
    .ggml_id = 2,
    .block_elems = 32,
    .block_bytes = sizeof(struct block_q4_0),
    .scale_at = offsetof(struct block_q4_0, d),
    .n_scales = 1,
    .act = ACT_Q8,
    .decode = decode,
    .synthesise = synthesise,
};
