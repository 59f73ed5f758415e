/* Sizes of farms: the founding study's figures, and what rounding must not do. */
#include "batch/farm.h"

#include "tests/test.h"

static struct farm_machine machine(void)
{
    return (struct farm_machine){.tokens_per_s = 0.37,
                                 .stream_tokens_per_s = 0.37,
                                 .hours = 8,
                                 .utilisation = 0.7,
                                 .watts = 240,
                                 .price = 4000,
                                 .checkpoint_bytes = UINT64_C(539) << 30};
}

static void check_case(double requests, double tokens, double machines, double minutes, double kw,
                       double usd, double tib)
{
    struct error e = {0};
    const struct farm_machine m = machine();
    const struct farm_demand d = {50, requests, tokens};
    struct farm_size s;
    CHECK_OK(farm_size(&m, &d, &s, &e), &e);
    CHECK_INT(s.machines, machines);
    CHECK(fabs(s.latency_s / 60 - minutes) < 0.05);
    CHECK(fabs(s.watts / 1000 - kw) < 0.05);
    CHECK_INT(s.cost, usd);
    CHECK(fabs(s.storage_bytes / (double)(UINT64_C(1) << 40) - tib) < 0.05);
}

TEST(farm_gives_the_figures_of_the_study)
{
    check_case(5, 300, 11, 13.5, 2.6, 44000, 5.8);
    check_case(20, 500, 68, 22.5, 16.3, 272000, 35.8);
    check_case(50, 800, 269, 36.0, 64.6, 1076000, 141.6);
}

/* A demand of exactly n machines is n, however the factors round; a token more is one more. */
TEST(farm_rounds_up_what_is_more_than_whole)
{
    struct error e = {0};
    struct farm_machine m = machine();
    for (int n = 1; n < 2000; n++) {
        struct farm_size s;
        m.tokens_per_s = 0.1 * (1 + n % 7);
        m.utilisation = 0.1 * (1 + n % 9);
        const double a_day = m.tokens_per_s * m.hours * 3600 * m.utilisation;
        CHECK_OK(farm_size(&m, &(struct farm_demand){1, n, a_day}, &s, &e), &e);
        CHECK_INT(s.machines, n);
        CHECK_OK(farm_size(&m, &(struct farm_demand){1, 1, a_day * n + 1}, &s, &e), &e);
        CHECK_INT(s.machines, n + 1);
    }
}

TEST(farm_tells_streams_and_machines_apart)
{
    struct error e = {0};
    struct farm_machine m = machine();
    struct farm_size alone, shared;
    const struct farm_demand d = {50, 20, 500};
    CHECK_OK(farm_size(&m, &d, &alone, &e), &e);
    m.tokens_per_s = 1.48;
    m.prompt_s = 60;
    CHECK_OK(farm_size(&m, &d, &shared, &e), &e);
    CHECK_INT(shared.machines, 17);
    CHECK(fabs(shared.latency_s - alone.latency_s - 60) < 1e-6);
}

TEST(farm_refuses_what_cannot_be_counted)
{
    struct error e = {0};
    struct farm_machine m = machine();
    struct farm_size s;
    m.tokens_per_s = 1e-6;
    CHECK_ERROR(farm_size(&m, &(struct farm_demand){1e9, 1e6, 1e9}, &s, &e), &e, ERROR_INVALID,
                "more machines than can be counted");
}
