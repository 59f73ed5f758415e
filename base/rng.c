#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <sys/random.h>

#include "base/clock.h"

#define GOLDEN_GAMMA 0x9E3779B97F4A7C15u /* 2^64 / golden ratio, odd: the step of the Weyl sequence */
#define LN2 0.693147180559945309417232121458
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

/*
 * The logarithm of x in (0, 1] and the cosine of u turns, u in [0, 1). Not libm's: its last bit
 * differs between versions and processors, and a model made from a seed is the same file everywhere.
 * Only + - * / in a fixed order, so IEEE 754 settles every bit. Good to about 1e-15.
 */
static double portable_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent); /* [0.5, 1) */
    double t = (m - 1) / (m + 1);   /* [-1/3, 0): log m = 2 atanh t */
    double sum = 0;
    for (int k = 31; k >= 1; k -= 2)
        sum = sum * t * t + 1.0 / k;
    return 2 * t * sum + exponent * LN2;
}

static double portable_cos_turns(double u)
{
    double turn = u > 0.5 ? 1 - u : u; /* cosine is even: [0, 0.5] */
    int flip = turn > 0.25;
    double x = (flip ? 0.5 - turn : turn) * TWO_PI; /* [0, pi/2] */
    double sum = 0;
    for (int k = 22; k >= 2; k -= 2)
        sum = (1 - sum) * x * x / (k * (k - 1));
    return flip ? sum - 1 : 1 - sum;
}

float rng_normal(uint64_t seed, uint64_t index)
{
    double u = 1 - rng_unit(seed, 2 * index); /* (0, 1] */
    double v = rng_unit(seed, 2 * index + 1);
    return (float)(sqrt(-2 * portable_log(u)) * portable_cos_turns(v));
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
