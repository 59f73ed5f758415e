#include "engine/quant/grid.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_iq1_s *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++)
        grid_decode(grid_iq1_s_open, grid_codes_iq1, b, 0.125f * quant_f16_to_f32(b->d), out);
}

/* All entries and signs alike: rms 6.2475 as grid_codes has them; scales 1, 3 .. 15: rms 9.220. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_iq1_s *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b, sizeof(*b));
    b->d = synth_scale(&s, rms * (1.0f / (0.125f * 6.2475f * 9.220f)), 1);
}

const struct quant quant_iq1_s = {
    .name = "IQ1_S",
    .index = QUANT_INDEX_iq1_s,
    .ggml_id = 19,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_iq1_s),
    .scale_at = offsetof(struct block_iq1_s, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
