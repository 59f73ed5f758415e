#include "engine/quant/codes.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_nvfp4 *b = blocks;
    for (; n > 0; n -= 64, b++) {
        for (size_t part = 0; part < 2; part++, out += 32) {
            int8_t q[32];
            codes_nvfp4(b, part, q);
            float low = block_scale_nvfp4(b->d[2 * part]);
            float high = block_scale_nvfp4(b->d[2 * part + 1]);
            for (int j = 0; j < 16; j++) {
                out[j] = low * (float)q[j];
                out[j + 16] = high * (float)q[j + 16];
            }
        }
    }
}

/* One of the two scales about that value, the nearer one more often: on average it is met. */
static uint8_t draw_scale(struct synth *s, float value)
{
    uint8_t below = 0;
    while (below < 0x7d && block_scale_nvfp4((uint8_t)(below + 1)) <= value)
        below++;
    float low = block_scale_nvfp4(below);
    float step = block_scale_nvfp4((uint8_t)(below + 1)) - low;
    float chance = (float)(synth_u64(s) & 0xffff) * (1.0f / 65536.0f);
    return (uint8_t)(below + (chance * step < value - low));
}

/* The table's values, all alike: rms 5.852. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_nvfp4 *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b->qs, sizeof(b->qs));
    for (int i = 0; i < 4; i++) {
        float factor = 0.8f + 0.4f * ((float)(synth_u64(&s) & 0xffff) / 65536.0f);
        b->d[i] = draw_scale(&s, rms * (1.0f / 5.852f) * factor);
    }
}

const struct quant quant_nvfp4 = {
    .name = "NVFP4",
    .index = QUANT_INDEX_nvfp4,
    .ggml_id = 40,
    .block_elems = 64,
    .block_bytes = sizeof(struct block_nvfp4),
    .act = ACT_Q8,
    .decode = decode,
    .synthesise = synthesise,
};
