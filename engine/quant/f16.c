#include <string.h>

#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const uint16_t *half = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = quant_f16_to_f32(half[i]);
}

static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    uint16_t half = quant_f32_to_f16(synth_bell(seed, index, rms));
    memcpy(block, &half, sizeof(half));
}

const struct quant quant_f16 = {
    .name = "F16",
    .index = QUANT_INDEX_f16,
    .ggml_id = 1,
    .block_elems = 1,
    .block_bytes = sizeof(uint16_t),
    .n_scales = 1,
    .act = ACT_F32,
    .decode = decode,
    .synthesise = synthesise,
};
