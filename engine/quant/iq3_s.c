#include "engine/quant/grid.h"
#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const struct block_iq3_s *b = blocks;
    for (; n > 0; n -= 256, out += 256, b++)
        grid_decode(grid_iq3_s_open, grid_codes, b, quant_f16_to_f32(b->d), out);
}

/* All entries and signs alike: rms 7.594 as grid_codes has them; scales 1, 3 .. 31: rms 18.466. */
static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    struct block_iq3_s *b = block;
    struct synth s = synth_begin(seed, index);
    synth_bytes(&s, b, sizeof(*b));
    b->d = synth_scale(&s, rms * (1.0f / (7.594f * 18.466f)), 1);
}

const struct quant quant_iq3_s = {
    .name = "IQ3_S",
    .index = QUANT_INDEX_iq3_s,
    .ggml_id = 21,
    .block_elems = 256,
    .block_bytes = sizeof(struct block_iq3_s),
    .scale_at = offsetof(struct block_iq3_s, d),
    .n_scales = 1,
    .act = ACT_Q8K,
    .decode = decode,
    .synthesise = synthesise,
};
