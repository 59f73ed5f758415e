/*
 * What the formats' synthesise functions share: one stream of random bytes a block.
 *
 * Stays true: a block's bytes are a pure function of (seed, index); only integer arithmetic, f32
 * products and square roots of constants, so they are the same on every machine.
 */
#ifndef ENGINE_QUANT_SYNTH_H
#define ENGINE_QUANT_SYNTH_H

#include <stddef.h>
#include <stdint.h>

struct synth {
    uint64_t seed; /* of this block */
    uint64_t next;
};

struct synth synth_begin(uint64_t seed, uint64_t index);
uint64_t synth_u64(struct synth *s);
void synth_bytes(struct synth *s, void *out, size_t n);
/*
 * A block's scale as binary16: value times 0.8 .. 1.2. With either_sign its sign is random too, which
 * takes the mean of codes like -8..7 out of the sum over many blocks.
 */
uint16_t synth_scale(struct synth *s, float value, int either_sign);
/*
 * The twelve bytes of q4_k's and q5_k's scales, each minimum equal to its group's scale: bytes g and
 * g + 4 are scale and minimum of group g < 4, the nibbles of byte g + 8 and the top bits above those of
 * group g + 4. Scales are 0..63: rms 36.54.
 */
void synth_scales_k4(struct synth *s, uint8_t scales[12]);
/* Bell-shaped (sum of four uniform numbers), of that rms. */
float synth_bell(uint64_t seed, uint64_t index, float rms);

#endif
