/*
 * The few transcendental functions of the numeric path, without libm.
 *
 * libm's results differ between its versions and machines; these use only IEEE double additions,
 * multiplications and divisions in a fixed order, so they give the same bits everywhere. Errors stay
 * below 2e-15 relative in the ranges named (tests compare with long double libm).
 */
#ifndef BASE_NUMERIC_H
#define BASE_NUMERIC_H

double numeric_exp(double x);                     /* 0 below -745, infinity above 709.78 */
double numeric_log(double x);                     /* x > 0 and finite */
double numeric_pow(double base, double exponent); /* base > 0; exp(exponent * log(base)) */
/* |x| up to 2^30; absolute error below 1e-9 * 2^-30 * |x| + 1e-15. */
void numeric_sincos(double x, double *ret_sin, double *ret_cos);

#endif
