#include "engine/quant/grid.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_iq2_xs *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++)
        grid_decode(grid_iq2_xs_open, grid_codes, b, 0.125f * quant_f16_to_f32(b->d), out);
}

/* All entries and signs alike: rms 24.217 as grid_codes has them; scales 1, 3 .. 31: rms 18.466. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_iq2_xs *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b, sizeof(*b));
    b->d = synth_scale(&s, rms * (1.0f / (0.125f * 24.217f * 18.466f)), 1);
}

const struct quant quant_iq2_xs = {
    .name = "IQ2_XS",
    .index = QUANT_INDEX_iq2_xs,
    .ggml_id = 17,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_iq2_xs),
    .scale_at = offsetof(struct block_iq2_xs, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
