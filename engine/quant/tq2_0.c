#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_tq2_0 *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++) {
        int8_t q[256];
        codes_tq2_0(b, q);
        float d = quant_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++)
            out[j] = d * (float)q[j];
    }
}

/* Code 3 is none of a ternary file's: it becomes 1, so that 0, 1, 2 come 1 : 2 : 1. Rms 0.7071. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_tq2_0 *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    for (size_t i = 0; i < sizeof(b->qs); i++) {
        int threes = b->qs[i] & b->qs[i] >> 1 & 0x55;
        b->qs[i] = (uint8_t)(b->qs[i] ^ threes << 1);
    }
    b->d = synth_scale(&s, rms * (1.0f / 0.7071f), 1);
}

const struct quant quant_tq2_0 = {
    .name = "TQ2_0",
    .index = QUANT_INDEX_tq2_0,
    .ggml_id = 35,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_tq2_0),
    .scale_at = offsetof(struct block_tq2_0, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
