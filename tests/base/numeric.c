#include "base/numeric.h"

#include <math.h>

#include "base/rng.h"
#include "tests/test.h"

static double relative(double got, long double want)
{
    return (double)fabsl(((long double)got - want) / want);
}

TEST(numeric_exp_log_pow)
{
    double worst_exp = 0, worst_log = 0, worst_pow = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        double x = (rng_unit(1, i) - 0.5) * 1400.0;
        worst_exp = fmax(worst_exp, relative(numeric_exp(x), expl(x)));
        double y = exp((rng_unit(2, i) - 0.5) * 1400.0);
        if (fabs(y - 1.0) > 1e-3)
            worst_log = fmax(worst_log, relative(numeric_log(y), logl(y)));
        double p = -2.0 / (double)(2 + (i % 256));
        double base = 1.0 + rng_unit(3, i) * 1e6;
        worst_pow = fmax(worst_pow, relative(numeric_pow(base, p), powl(base, p)));
    }
    test_note("exp %.2g log %.2g pow %.2g", worst_exp, worst_log, worst_pow);
    CHECK(worst_exp < 2e-15 && worst_log < 2e-15 && worst_pow < 1e-14);
    CHECK(numeric_exp(-1000) == 0.0 && isinf(numeric_exp(1000)));
    CHECK(numeric_exp(0) == 1.0 && numeric_log(1) == 0.0);
}

TEST(numeric_sincos_matches_libm)
{
    double worst = 0;
    for (uint64_t i = 0; i < 50000; i++) {
        double x = (rng_unit(4, i) - 0.5) * (i % 2 ? 16.0 : 2.0e6);
        double s, c;
        numeric_sincos(x, &s, &c);
        worst = fmax(worst, (double)fabsl((long double)s - sinl(x)));
        worst = fmax(worst, (double)fabsl((long double)c - cosl(x)));
    }
    test_note("worst %.2g", worst);
    CHECK(worst < 1e-14);
}
