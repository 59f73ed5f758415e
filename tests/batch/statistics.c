/* Means and confidence intervals against published values. */
#include "batch/statistics.h"

#include "tests/test.h"

TEST(statistics_t_is_that_of_the_tables)
{
    /* Quantiles 0.975 of Student's t as printed in every table. */
    static const struct {
        size_t freedom;
        double t;
    } known[] = {{1, 12.7062}, {2, 4.3027},  {3, 3.1824},   {9, 2.2622},
                 {20, 2.0860}, {21, 2.0796}, {25, 2.0595},  {30, 2.0423},
                 {40, 2.0211}, {60, 2.0003}, {120, 1.9799}, {1000, 1.9623}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        CHECK(fabs(statistics_t975(known[i].freedom) - known[i].t) < 6e-5);
    CHECK(fabs(statistics_t975(100000000) - 1.959964) < 1e-6);
}

TEST(statistics_of_known_samples)
{
    const double three[] = {2, 4, 9};
    struct statistics s = statistics_of(three, 3);
    CHECK_INT(s.n, 3);
    CHECK(fabs(s.mean - 5) < 1e-12 && fabs(s.deviation - sqrt(13)) < 1e-12);
    CHECK(fabs(s.ci95 - 4.302653 * sqrt(13.0 / 3)) < 1e-5);
    const double same[] = {7, 7, 7, 7};
    s = statistics_of(same, 4);
    CHECK(s.mean == 7 && s.deviation == 0 && s.ci95 == 0);
}

TEST(statistics_of_one_value_has_no_interval_and_of_none_nothing)
{
    const double one = 3, none[] = {NAN, INFINITY}, mixed[] = {1, NAN, 3};
    struct statistics s = statistics_of(&one, 1);
    CHECK(s.n == 1 && s.mean == 3 && isnan(s.deviation) && isnan(s.ci95));
    s = statistics_of(none, 2);
    CHECK(s.n == 0 && isnan(s.mean) && isnan(s.ci95));
    s = statistics_of(mixed, 3);
    CHECK(s.n == 2 && s.mean == 2 && fabs(s.deviation - sqrt(2)) < 1e-12);
}
