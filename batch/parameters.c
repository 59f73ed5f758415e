#include "batch/parameters.h"

#include <string.h>

#include "base/alloc.h"

static bool said(const struct options *o, enum option_id id, bool flags_only)
{
    return flags_only ? o->value[id].origin == ORIGIN_FLAG : option_given(o, id);
}

static int take_stop(struct parameters *p, const struct options *o, struct error *e)
{
    size_t n = 0;
    while (option_item(o, OPTION_STOP, n))
        n++;
    if (n == 0)
        return 0;
    p->stop = mem_array(n, sizeof(*p->stop));
    if (!p->stop)
        return error_set(e, ERROR_NOMEM, "out of memory for stop strings");
    for (size_t i = 0; i < n; i++)
        p->stop[i] = str_of(option_item(o, OPTION_STOP, i));
    p->job.stop = p->stop;
    p->job.n_stop = n;
    return 0;
}

int parameters_take(struct parameters *p, const struct options *o, bool flags_only, struct error *e)
{
    memset(p, 0, sizeof(*p));
    struct job_parameters *j = &p->job;
    if (said(o, OPTION_SYSTEM, flags_only))
        j->system = str_of(option_text(o, OPTION_SYSTEM));
    j->has_max_tokens = said(o, OPTION_MAX_TOKENS, flags_only);
    j->max_tokens = option_int(o, OPTION_MAX_TOKENS);
    j->has_temperature = said(o, OPTION_TEMPERATURE, flags_only);
    j->temperature = option_real(o, OPTION_TEMPERATURE);
    j->has_top_p = said(o, OPTION_TOP_P, flags_only);
    j->top_p = option_real(o, OPTION_TOP_P);
    j->has_top_k = said(o, OPTION_TOP_K, flags_only);
    j->top_k = option_int(o, OPTION_TOP_K);
    j->has_min_p = said(o, OPTION_MIN_P, flags_only);
    j->min_p = option_real(o, OPTION_MIN_P);
    j->has_repeat_penalty = said(o, OPTION_REPEAT_PENALTY, flags_only);
    j->repeat_penalty = option_real(o, OPTION_REPEAT_PENALTY);
    if (said(o, OPTION_REASONING, flags_only))
        j->reasoning = str_of(option_text(o, OPTION_REASONING));
    j->has_reasoning_budget = said(o, OPTION_REASONING_BUDGET, flags_only);
    j->reasoning_budget = option_int(o, OPTION_REASONING_BUDGET);
    j->has_seed = said(o, OPTION_SEED, flags_only);
    j->seed = option_int(o, OPTION_SEED);
    return take_stop(p, o, e);
}

void parameters_release(struct parameters *p)
{
    mem_free(p->stop);
    memset(p, 0, sizeof(*p));
}
