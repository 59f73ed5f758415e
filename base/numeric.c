#include "base/numeric.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln 2 in two parts: the product of the first with an integer below 2^11 is exact. */
static const double ln2_high = 0x1.62e42fefa3800p-1;
static const double ln2_low = 0x1.ef35793c76730p-45;

static double power_of_two(int n) /* -1022 <= n <= 1023 */
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* Nearest integer by adding and taking away 1.5 * 2^52. */
static double nearest(double x)
{
    const double big = 0x1.8p52;
    volatile double shifted = x + big; /* volatile: the rounding is the point */
    return shifted - big;
}

double numeric_exp(double x)
{
    if (x < -745.0)
        return 0.0;
    if (x > 709.78)
        return HUGE_VAL;
    double k = nearest(x * 0x1.71547652b82fep+0);
    double r = (x - k * ln2_high) - k * ln2_low; /* |r| <= ln2 / 2 */
    double sum = 1.0;
    for (int i = 14; i >= 1; i--)
        sum = 1.0 + sum * r / i;
    int n = (int)k;
    if (n < -1000) /* into the subnormals in two steps */
        return sum * power_of_two(n + 200) * power_of_two(-200);
    if (n > 1000)
        return sum * power_of_two(n - 200) * power_of_two(200);
    return sum * power_of_two(n);
}

double numeric_log(double x)
{
    uint64_t bits;
    int exponent = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54;
    }
    memcpy(&bits, &x, sizeof(bits));
    exponent += (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof(m)); /* [1, 2) */
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        exponent++;
    }
    /* log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716 */
    double s = (m - 1.0) / (m + 1.0);
    double s2 = s * s;
    double sum = 0.0;
    for (int i = 21; i >= 3; i -= 2)
        sum = (sum + 1.0 / i) * s2;
    return exponent * ln2_high + (exponent * ln2_low + 2.0 * (s + s * sum));
}

double numeric_pow(double base, double exponent)
{
    return numeric_exp(exponent * numeric_log(base));
}

/* pi / 2 in three parts of 33, 33 and 53 bits: k * part is exact for the first two, |k| < 2^20. */
static const double pio2_1 = 0x1.921fb544p+0;
static const double pio2_2 = 0x1.0b4611a6p-34;
static const double pio2_3 = 0x1.3198a2e037073p-69;

static double sin_small(double r) /* |r| <= pi / 4 */
{
    double r2 = r * r;
    double sum = 1.0;
    for (int i = 16; i >= 2; i -= 2)
        sum = 1.0 - sum * r2 / (i * (i + 1));
    return r * sum;
}

static double cos_small(double r)
{
    double r2 = r * r;
    double sum = 1.0;
    for (int i = 17; i >= 1; i -= 2)
        sum = 1.0 - sum * r2 / (i * (i + 1));
    return sum;
}

void numeric_sincos(double x, double *ret_sin, double *ret_cos)
{
    double k = nearest(x * 0x1.45f306dc9c883p-1);
    double r = ((x - k * pio2_1) - k * pio2_2) - k * pio2_3;
    double s = sin_small(r), c = cos_small(r);
    switch ((int64_t)k & 3) {
    case 0:
        *ret_sin = s;
        *ret_cos = c;
        break;
    case 1:
        *ret_sin = c;
        *ret_cos = -s;
        break;
    case 2:
        *ret_sin = -s;
        *ret_cos = -c;
        break;
    case 3:
        *ret_sin = -c;
        *ret_cos = s;
        break;
    }
}
