/* Numbers that every ISA must agree on. Internal to engine/kernels/cpu. */
#ifndef ENGINE_KERNELS_CPU_LIMITS_H
#define ENGINE_KERNELS_CPU_LIMITS_H

/*
 * A block of activations whose largest magnitude is below ACT_LEAST counts as zero (127 / max would
 * overflow before long); above ACT_MOST it counts as infinite, so that d * q never overflows late.
 */
#define ACT_LEAST 0x1p-100f
#define ACT_MOST 0x1p126f

/* The scale of a block's codes, and *ret_inverse = 127 / max; 0 where all codes are to be 0. */
static inline float act_scale(float max, float *ret_inverse)
{
    *ret_inverse = 0.0f;
    if (max < ACT_LEAST)
        return 0.0f;
    if (!(max <= ACT_MOST))
        return max * 2.0f; /* infinity or NaN */
    *ret_inverse = 127.0f / max;
    return max / 127.0f;
}

/*
 * exp(x) = 2^n * e^r with n = rint(x / ln 2) and r = x - n ln 2 in +-0.3466. LN2_HIGH has 9 low zero
 * bits: n * LN2_HIGH is exact for every n that occurs. e^r = 1 + r + r^2 (C2 + C3 r + ... C6 r^4),
 * C3 to C6 fitted to the least relative error on the interval (4e-9).
 */
#define EXP_LOWEST (-104.0f)    /* smaller: 0 */
#define EXP_HIGHEST 88.7228394f /* larger: infinity */
#define EXP_LOG2E 1.44269504f
#define EXP_LN2_HIGH 0.693145752f /* 0x3f317200 */
#define EXP_LN2_LOW 1.42860682e-6f
#define EXP_C2 0.5f
#define EXP_C3 1.66665345e-1f
#define EXP_C4 4.16672379e-2f
#define EXP_C5 8.36747698e-3f
#define EXP_C6 1.38637866e-3f

/*
 * tanh(x) below TANH_SMALL = x + x z (C0 + C1 z + ... C4 z^4) with z = x^2 (interpolated at Chebyshev's
 * nodes: relative error 1.7e-8); from there on 1 - 2 / (exp(2 x) + 1). Odd.
 */
#define TANH_SMALL 0.625f
#define TANH_C0 (-3.33333284e-1f)
#define TANH_C1 1.33327693e-1f
#define TANH_C2 (-5.38509078e-2f)
#define TANH_C3 2.09971797e-2f
#define TANH_C4 (-6.09671418e-3f)

#endif
