#include "batch/farm.h"

#define SECONDS_PER_HOUR 3600
#define MACHINES_MAX 1e12
/* What rounding of the factors may add to a quotient that is whole. */
#define ROUNDING 1e-9

static double round_up(double x)
{
    const double whole = (double)(int64_t)x;
    return x - whole > x * ROUNDING ? whole + 1 : whole;
}

int farm_size(const struct farm_machine *m, const struct farm_demand *d, struct farm_size *ret,
              struct error *e)
{
    struct farm_size s = {
        .tokens_per_day = d->users * d->requests * d->tokens,
        .machine_tokens_per_day = m->tokens_per_s * m->hours * SECONDS_PER_HOUR * m->utilisation,
        .latency_s = m->prompt_s + d->tokens / m->stream_tokens_per_s,
    };
    if (!(s.tokens_per_day <= MACHINES_MAX * s.machine_tokens_per_day))
        return error_set(e, ERROR_INVALID,
                         "%.0f tokens a day at %.3g a day for a machine: more machines than can "
                         "be counted",
                         s.tokens_per_day, s.machine_tokens_per_day);
    s.machines = round_up(s.tokens_per_day / s.machine_tokens_per_day);
    s.watts = s.machines * m->watts;
    s.cost = s.machines * m->price;
    s.storage_bytes = s.machines * (double)m->checkpoint_bytes;
    *ret = s;
    return 0;
}
