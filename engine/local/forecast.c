#include "engine/local/forecast.h"

#include "base/numeric.h"
#include "engine/local/local.h"

/* How fast a sequence moves on to other experts: 1 would be a fresh choice for every token. */
#define PERSISTENCE 0.75

double forecast_hit_rate(double slots, double n_experts, double n_used)
{
    if (slots >= n_experts)
        return 1;
    if (slots < n_used)
        return 0;
    /* D(W) = slots, solved for W; then D'(W) of the next token's experts are new. */
    const double each = -numeric_log(1 - n_used / n_experts);
    const double choices = -numeric_log(1 - slots / n_experts) / each;
    const double window = numeric_pow(choices, 1 / PERSISTENCE);
    const double new_ones = (n_experts - slots) * each * PERSISTENCE * choices / window;
    return 1 - MIN_OF(new_ones / n_used, 1.0);
}

void engine_forecast(const struct engine *en, struct engine_forecast *ret)
{
    struct engine_makeup m;
    const struct engine_plan *p = &en->plan;
    engine_makeup(en, &m);
    *ret = (struct engine_forecast){.hit_rate = 1,
                                    .streamed_bytes = p->streamed_bytes,
                                    .read_bytes = p->streamed_bytes,
                                    .touched_bytes = m.trunk_read_bytes + m.experts_read_bytes};
    if (m.n_moe == 0)
        return;
    ret->slots_per_layer = (double)p->expert_slots / m.n_moe;
    ret->hit_rate = forecast_hit_rate(ret->slots_per_layer, m.n_experts, m.n_experts_used);
    ret->read_bytes += (uint64_t)((1 - ret->hit_rate) * (double)m.experts_read_bytes);
}

void engine_forecast_rate(const struct engine_forecast *f, double disk, double memory,
                          double *ret_expected, double *ret_at_most)
{
    const double read_s = disk > 0 ? (double)f->read_bytes / disk : 0;
    const double touch_s = memory > 0 ? (double)f->touched_bytes / memory : 0;
    const double streamed_s = disk > 0 ? (double)f->streamed_bytes / disk : 0;
    const double step_s = MAX_OF(streamed_s, touch_s) + (read_s - streamed_s);
    *ret_expected = step_s > 0 ? 1 / step_s : 0;
    *ret_at_most = MAX_OF(read_s, touch_s) > 0 ? 1 / MAX_OF(read_s, touch_s) : 0;
}
