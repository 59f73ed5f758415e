#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_mxfp4 *b = blocks;
    for (; n > 0; n -= 32, out += 32, b++) {
        int8_t q[32];
        codes_fp4(b->qs, q);
        float d = block_scale_mxfp4(b->e);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)q[j];
    }
}

/*
 * The table's values, all alike: rms 5.852. Scales are powers of two: the next one below, or above it
 * as often as the mean square needs.
 */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_mxfp4 *b = block;
    struct synth s = synth_begin(seed, index);
    float scale = rms * (1.0f / 5.852f);
    uint32_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    uint8_t below = (uint8_t)((bits >> 23) + 1);
    float ratio = scale / block_scale_mxfp4(below); /* 1 .. 2 */
    float chance = (float)(synth_u64(&s) & 0xffff) * (3.0f / 65536.0f);
    b->e = (uint8_t)(below + (chance < ratio * ratio - 1.0f));
    synth_bytes(&s, b->qs, sizeof(b->qs));
}

/* The largest code, 6, times 2^126 is infinite; so a scale like that is none. */
static bool finite(const void *blocks, size_t n)
{
    const struct block_mxfp4 *b = blocks;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= b[i].e >= 253;
    return !bad;
}

const struct quant quant_mxfp4 = {
    .name = "MXFP4",
    .index = QUANT_INDEX_mxfp4,
    .ggml_id = 39,
    .block_elems = 32,
    .block_bytes = sizeof(struct block_mxfp4),
    .act = ACT_Q8,
    .decode = decode,
    .finite = finite,
    .synthesise = synthesise,
};
