#include <string.h>

#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    const uint16_t *half = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = quant_bf16_to_f32(half[i]);
}

static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    uint16_t half = quant_f32_to_bf16(synth_bell(seed, index, rms));
    memcpy(block, &half, sizeof(half));
}

static bool finite(const void *blocks, size_t n)
{
    const uint16_t *half = blocks;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= (half[i] & 0x7f80) == 0x7f80;
    return !bad;
}

const struct quant quant_bf16 = {
    .name = "BF16",
    .index = QUANT_INDEX_bf16,
    .ggml_id = 30,
    .block_elems = 1,
    .block_bytes = sizeof(uint16_t),
    .act = ACT_F32,
    .decode = decode,
    .finite = finite,
    .synthesise = synthesise,
};
