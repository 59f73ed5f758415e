#include "engine/quant/synth.h"

#include <string.h>

#include "base/rng.h"
#include "engine/quant/quant.h"

struct synth synth_begin(uint64_t seed, uint64_t index)
{
    return (struct synth){.seed = rng_u64(seed, index)};
}

uint64_t synth_u64(struct synth *s)
{
    return rng_u64(s->seed, s->next++);
}

void synth_bytes(struct synth *s, void *out, size_t n)
{
    uint8_t *to = out;
    while (n > 0) {
        uint64_t word = synth_u64(s);
        size_t part = n < sizeof(word) ? n : sizeof(word);
        memcpy(to, &word, part);
        to += part;
        n -= part;
    }
}

uint16_t synth_scale(struct synth *s, float value, int either_sign)
{
    uint64_t word = synth_u64(s);
    float factor = 0.8f + 0.4f * ((float)(word & 0xffff) / 65536.0f);
    if (either_sign && (word >> 32 & 1))
        factor = -factor;
    return quant_f32_to_f16(value * factor);
}

void synth_scales_k4(struct synth *s, uint8_t scales[12])
{
    synth_bytes(s, scales, 12);
    for (int g = 0; g < 4; g++) {
        scales[g + 4] = scales[g];
        scales[g + 8] = (uint8_t)((scales[g + 8] & 15) * 0x11);
    }
}

float synth_bell(uint64_t seed, uint64_t index, float rms)
{
    uint64_t word = rng_u64(seed, index);
    int32_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int32_t)(word >> 16 * i & 0xffff);
    /* Four uniform numbers on [0, 65536): mean 2 * 65535, variance 4 * 65536^2 / 12. */
    return rms * ((float)(sum - 2 * 65535) * (1.7320508f / 65536.0f));
}
