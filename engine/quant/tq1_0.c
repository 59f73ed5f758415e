#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_tq1_0 *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        codes_tq1_0(b, q);
        float d = quant_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++)
            out[j] = d * (float)q[j];
    }
}

/* Random fractions give all digits alike, nearly: rms 0.8173. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_tq1_0 *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    synth_bytes(&s, b->qh, sizeof(b->qh));
    b->d = synth_scale(&s, rms * (1.0f / 0.8173f), 1);
}

const struct quant quant_tq1_0 = {
    .name = "TQ1_0",
    .index = QUANT_INDEX_tq1_0,
    .ggml_id = 34,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_tq1_0),
    .scale_at = offsetof(struct block_tq1_0, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
