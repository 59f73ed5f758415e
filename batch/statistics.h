/*
 * What a handful of measurements says: mean, spread, and how far the mean may be from the truth.
 *
 * Owns nothing. Pure. Values that are no numbers are left out.
 */
#ifndef BATCH_STATISTICS_H
#define BATCH_STATISTICS_H

#include <stddef.h>

struct statistics {
    size_t n;
    double mean;      /* NAN of none */
    double deviation; /* of the sample (n - 1); NAN below two */
    double
        ci95; /* half of the 95 % confidence interval of the mean, by Student's t; NAN below two */
};

struct statistics statistics_of(const double *value, size_t n);
/* The t that a share of 2.5 % lies above, with that many degrees of freedom (at least 1). */
double statistics_t975(size_t freedom);

#endif
