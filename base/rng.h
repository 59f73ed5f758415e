/*
 * Counter-based random numbers: a pure function of (seed, index).
 *
 * Stays true: the value for (seed, index) never changes between versions, machines or threads, so a
 * token sampled after a crash is the token sampled before it. Mixer: SplitMix64's finaliser over a
 * Weyl sequence (Steele, Lea, Flood 2014), applied to seed and index.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

uint64_t rng_u64(uint64_t seed, uint64_t index);
double rng_unit(uint64_t seed, uint64_t index); /* [0, 1), 53 bits */
/* Standard normal (Box-Muller over indices 2i and 2i+1). For test models only. */
float rng_normal(uint64_t seed, uint64_t index);
/* Unpredictable 64 bits from the kernel, for seeds that nobody chose. */
uint64_t rng_entropy(void);

#endif
