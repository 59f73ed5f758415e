#include <string.h>

#include "engine/quant/quant.h"
#include "engine/quant/synth.h"

static void decode(const void *blocks, float *out, size_t n)
{
    memcpy(out, blocks, n * sizeof(*out));
}

static void synthesise(void *block, uint64_t seed, uint64_t index, float rms)
{
    float x = synth_bell(seed, index, rms);
    memcpy(block, &x, sizeof(x));
}

static bool finite(const void *blocks, size_t n)
{
    const uint32_t *bits = blocks;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= (bits[i] & 0x7f800000) == 0x7f800000;
    return !bad;
}

const struct quant quant_f32 = {
    .name = "F32",
    .index = QUANT_INDEX_f32,
    .ggml_id = 0,
    .block_elems = 1,
    .block_bytes = sizeof(float),
    .act = ACT_F32,
    .decode = decode,
    .finite = finite,
    .synthesise = synthesise,
};
