#include "batch/statistics.h"

#include <math.h>

#include "base/compiler.h"

double statistics_t975(size_t freedom)
{
    static const double table[] = {12.706205, 4.302653, 3.182446, 2.776445, 2.570582,
                                   2.446912,  2.364624, 2.306004, 2.262157, 2.228139,
                                   2.200985,  2.178813, 2.160369, 2.144787, 2.131450,
                                   2.119905,  2.109816, 2.100922, 2.093024, 2.085963};
    if (freedom <= ARRAY_LEN(table))
        return table[freedom > 0 ? freedom - 1 : 0];
    /* Abramowitz and Stegun 26.7.5, from the normal distribution's quantile; right to 1e-5 here. */
    const double z = 1.959963985, v = (double)freedom, z2 = z * z;
    const double g1 = z * (z2 + 1) / 4;
    const double g2 = z * (5 * z2 * z2 + 16 * z2 + 3) / 96;
    const double g3 = z * (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / 384;
    return z + g1 / v + g2 / (v * v) + g3 / (v * v * v);
}

struct statistics statistics_of(const double *value, size_t n)
{
    struct statistics s = {.mean = NAN, .deviation = NAN, .ci95 = NAN};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(value[i]))
            continue;
        sum += value[i];
        s.n++;
    }
    if (s.n == 0)
        return s;
    s.mean = sum / (double)s.n;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(value[i]))
            squares += (value[i] - s.mean) * (value[i] - s.mean);
    }
    if (s.n > 1) {
        s.deviation = sqrt(squares / (double)(s.n - 1));
        s.ci95 = statistics_t975(s.n - 1) * s.deviation / sqrt((double)s.n);
    }
    return s;
}
