#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/numeric.h"

#define GOLDEN_GAMMA                                                                               \
    0x9E3779B97F4A7C15u /* 2^64 / golden ratio, odd: the step of the Weyl sequence */
#define TWO_PI 6.283185307179586476925286766559

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t rng_u64(uint64_t seed, uint64_t index)
{
    /* The seed is mixed first: neighbouring seeds must not give shifted copies of one sequence. */
    return mix(mix(seed) + (index + 1) * GOLDEN_GAMMA);
}

double rng_unit(uint64_t seed, uint64_t index)
{
    return (double)(rng_u64(seed, index) >> 11) * 0x1p-53;
}

float rng_normal(uint64_t seed, uint64_t index)
{
    double u = 1 - rng_unit(seed, 2 * index); /* (0, 1] */
    double sine;
    double cosine;
    numeric_sincos(TWO_PI * rng_unit(seed, 2 * index + 1), &sine, &cosine);
    return (float)(sqrt(-2 * numeric_log(u)) * cosine);
}

uint64_t rng_entropy(void)
{
    uint64_t value = 0;
    ssize_t got;
    do {
        got = getrandom(&value, sizeof(value), 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(value)) /* a kernel before 3.17, or a sandbox */
        value = mix((uint64_t)clock_wall_us() ^ mix((uint64_t)clock_mono_us()));
    return value;
}
