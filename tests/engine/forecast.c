/* The forecast of a cache's hits against what was measured or simulated of Kimi-K3. */
#include "engine/local/forecast.h"

#include "engine/engine.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

TEST(forecast_of_hits_is_near_what_is_known_of_kimi_k3)
{
    static const struct {
        double slots, hits;
    } known[] = {{23, 0.45}, {67, 0.54}, {101, 0.62}, {125, 0.67}, {152, 0.70}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const double got = forecast_hit_rate(known[i].slots, 896, 16);
        if (!(fabs(got - known[i].hits) < 0.11))
            test_fail(__FILE__, __LINE__, "%.0f slots: %.3f, want %.2f", known[i].slots, got,
                      known[i].hits);
    }
}

/* More slots never fewer hits; none below a token's own experts, all with a slot for each. */
TEST(forecast_of_hits_rises_with_the_slots)
{
    static const double shapes[][2] = {{896, 16}, {64, 6}, {8, 2}, {2, 1}};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const double n = shapes[i][0], used = shapes[i][1];
        double last = 0;
        CHECK(forecast_hit_rate(used - 0.5, n, used) == 0);
        for (double slots = used; slots < n; slots += 0.25) {
            const double got = forecast_hit_rate(slots, n, used);
            CHECK(got >= last && got < 1);
            last = got;
        }
        CHECK(forecast_hit_rate(n, n, used) == 1);
    }
}

TEST(forecast_of_a_rate_has_both_ends)
{
    const struct engine_forecast f = {.read_bytes = 100, .touched_bytes = 300};
    double expected, at_most;
    engine_forecast_rate(&f, 200, 300, &expected, &at_most);
    CHECK(fabs(expected - 1 / 1.5) < 1e-12 && fabs(at_most - 1) < 1e-12);
    const struct engine_forecast streamed = {
        .read_bytes = 100, .streamed_bytes = 60, .touched_bytes = 300};
    engine_forecast_rate(&streamed, 200, 300, &expected, &at_most);
    CHECK(fabs(expected - 1 / 1.2) < 1e-12 && fabs(at_most - 1) < 1e-12);
    engine_forecast_rate(&f, 50, 300, &expected, &at_most);
    CHECK(fabs(expected - 1 / 3.0) < 1e-12 && fabs(at_most - 0.5) < 1e-12);
}

/* What a plan keeps is not read; what it streams is, for every token. */
TEST(forecast_counts_what_the_plan_leaves_in_the_files)
{
    char path[4096];
    struct error e = {0};
    step_kit_model("forecast", "--arch qwen3moe --layers 6 --experts 32 --used 4 --type Q8_0",
                   path);
    uint64_t last = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        static const uint64_t limits[] = {1, 60u << 20, 1u << 30};
        struct engine *en = NULL;
        struct engine_plan p;
        struct engine_forecast f;
        struct engine_options o = {
            .model_path = path, .threads = 1, .slots = 1, .ctx = 64, .headers_only = true};
        CHECK_OK(ledger_new(&o.ledger, limits[i], &e), &e);
        CHECK_OK(engine_open(&en, &o, &e), &e);
        engine_plan(en, &p);
        engine_forecast(en, &f);
        CHECK(f.read_bytes >= p.streamed_bytes && f.read_bytes < last);
        CHECK((f.hit_rate < 1) == (p.expert_slots < p.expert_count));
        last = f.read_bytes;
        engine_close(en);
        ledger_free(o.ledger);
    }
    CHECK_INT(last, 0);
}
