#include "engine/quant/grid.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_iq1_m *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++)
        grid_decode(grid_iq1_m_open, grid_codes_iq1, b,
                    0.125f * quant_f16_to_f32(block_scale_iq1_m(b)), out);
}

/* All entries and signs alike: rms 6.2475 as grid_codes has them; scales 1, 3 .. 15: rms 9.220. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_iq1_m *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b, sizeof(*b));
    uint16_t d = synth_scale(&s, rms * (1.0f / (0.125f * 6.2475f * 9.220f)), 1);
    for (int i = 0; i < 4; i++) /* its nibbles above three-bit scales */
        b->scales[i] = (uint16_t)((b->scales[i] & 0x0fff) | (d >> 4 * i & 15) << 12);
}

static bool finite(const void *blocks, size_t n)
{
    const struct block_iq1_m *b = blocks;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= (block_scale_iq1_m(&b[i]) & 0x7c00) == 0x7c00;
    return !bad;
}

const struct quant quant_iq1_m = {
    .name = "IQ1_M",
    .index = QUANT_INDEX_iq1_m,
    .ggml_id = 29,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_iq1_m),
    .act = ACT_Q8K,
    .decode = decode,
    .finite = finite,
    .synthesise = synthesise,
};
