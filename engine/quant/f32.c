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

const struct quant quant_f32 = {
    .name = "F32",
    .index = QUANT_INDEX_f32,
    .ggml_id = 0,
    .block_elems = 1,
    .block_bytes = sizeof(float),
    .act = ACT_F32,
    .decode = decode,
    .synthesise = synthesise,
};
