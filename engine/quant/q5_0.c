#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_q5_0 *b = blocks;
    for (; n > 0; n -= 32, out += 32, b++) {
        int8_t q[32];
        codes_fives(b->qs, b->qh, 16, q);
        float d = quant_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)q[j];
    }
}

/* Codes -16..15, all alike: rms 9.246621. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_q5_0 *b = block;
    struct synth s = synth_begin(seed, index);
    b->d = synth_scale(&s, rms * (1.0f / 9.246621f), 1);
    synth_bytes(&s, b->qh, sizeof(b->qh));
    synth_bytes(&s, b->qs, sizeof(b->qs));
}

const struct quant quant_q5_0 = {
    .name = "Q5_0",
    .index = QUANT_INDEX_q5_0,
    .ggml_id = 6,
    .block_elems = 32,
    .block_bytes = sizeof(struct block_q5_0),
    .scale_at = offsetof(struct block_q5_0, d),
    .n_scales = 1,
    .act = ACT_Q8,
    .decode = decode,
    .synthesise = synthesise,
};
