#include "engine/sampler/sampler.h"

#include <math.h>

#include "base/numeric.h"
#include "base/rng.h"

int sampler_check(const struct engine_sampling *s, struct error *e)
{
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return error_set(e, ERROR_INVALID, "temperature is %g, must be from 0 to 100",
                         (double)s->temperature);
    if (s->top_k < 0)
        return error_set(e, ERROR_INVALID, "top_k is %d, must be 0 (all) or more", (int)s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return error_set(e, ERROR_INVALID, "top_p is %g, must be from 0 to 1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return error_set(e, ERROR_INVALID, "min_p is %g, must be from 0 to 1", (double)s->min_p);
    if (!(s->repeat_penalty >= 0 && s->repeat_penalty <= 100))
        return error_set(e, ERROR_INVALID, "repeat_penalty is %g, must be from 0 (off) to 100",
                         (double)s->repeat_penalty);
    if (s->repeat_last_n < -1)
        return error_set(e, ERROR_INVALID, "repeat_last_n is %d, must be -1 (all) or more",
                         (int)s->repeat_last_n);
    return 0;
}

/* Best first: the higher logit, then the lower id. A total order: equal never happens. */
static bool better(struct sampler_candidate a, struct sampler_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int gather(const struct sampler_input *in, struct error *e)
{
    for (uint32_t i = 0; i < in->n_vocab; i++) {
        if (!isfinite(in->logits[i]))
            return error_set(e, ERROR_NUMERIC, "answer token %llu: the logit of id %u is %g",
                             (unsigned long long)in->index, (unsigned)i, (double)in->logits[i]);
        in->scratch[i] = (struct sampler_candidate){.logit = in->logits[i], .id = (int32_t)i};
    }
    return 0;
}

/*
 * Once for each distinct id of the window, however often it stands there: a penalised candidate
 * carries its id complemented until the second walk puts it right.
 */
static void penalise(const struct sampler_input *in)
{
    const float penalty = in->sampling->repeat_penalty;
    const int32_t last_n = in->sampling->repeat_last_n;
    if (penalty == 0 || penalty == 1 || last_n == 0)
        return;
    size_t n = in->n_history;
    if (last_n > 0 && (size_t)last_n < n)
        n = (size_t)last_n;
    const int32_t *window = in->history + (in->n_history - n);
    for (size_t i = 0; i < n; i++) {
        struct sampler_candidate *c = &in->scratch[window[i]];
        if (c->id < 0)
            continue;
        c->logit = c->logit > 0 ? c->logit / penalty : c->logit * penalty;
        c->id = ~c->id;
    }
    for (size_t i = 0; i < n; i++)
        in->scratch[window[i]].id = window[i];
}

static int32_t best_of(const struct sampler_candidate *c, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (better(c[i], c[best]))
            best = i;
    }
    return c[best].id;
}

/*
 * The candidates in ranked order, as far as anybody asks: a heap whose best ones are moved to the end
 * one by one, so c[n - 1 - i] is number i of the ranking. A draw rarely needs more than a few.
 */
struct ranking {
    struct sampler_candidate *c;
    size_t n;
    size_t n_heap;
};

static void sift_down(struct sampler_candidate *c, size_t n, size_t at)
{
    const struct sampler_candidate moved = c[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && better(c[child + 1], c[child]))
            child++;
        if (!better(c[child], moved))
            break;
        c[at] = c[child];
        at = child;
    }
    c[at] = moved;
}

static void ranking_init(struct ranking *r, struct sampler_candidate *c, size_t n)
{
    *r = (struct ranking){.c = c, .n = n, .n_heap = n};
    for (size_t i = n / 2; i > 0; i--)
        sift_down(c, n, i - 1);
}

static struct sampler_candidate ranking_at(struct ranking *r, size_t i)
{
    while (r->n - r->n_heap <= i) {
        struct sampler_candidate best = r->c[0];
        r->n_heap--;
        r->c[0] = r->c[r->n_heap];
        sift_down(r->c, r->n_heap, 0);
        r->c[r->n_heap] = best;
    }
    return r->c[r->n - 1 - i];
}

/* Sum of exp((logit - top) / temperature) over the first `kept` of the ranking. */
static double mass_of(struct ranking *r, size_t kept, float top, double temperature)
{
    double sum = 0;
    if (kept == r->n) {
        /* All of them: in the heap's order, which the logits alone determine. */
        for (size_t i = 0; i < kept; i++)
            sum += numeric_exp(((double)r->c[i].logit - (double)top) / temperature);
        return sum;
    }
    for (size_t i = 0; i < kept; i++)
        sum += numeric_exp(((double)ranking_at(r, i).logit - (double)top) / temperature);
    return sum;
}

/* How many of the ranking top-k, top-p and min-p leave: at least one. */
static size_t count_kept(struct ranking *r, const struct engine_sampling *s, float top)
{
    size_t kept = r->n;
    if (s->top_k > 0 && (size_t)s->top_k < kept)
        kept = (size_t)s->top_k;
    if (s->top_p < 1) {
        const double wanted = (double)s->top_p * mass_of(r, kept, top, 1);
        double sum = 0;
        for (size_t i = 0; i < kept; i++) {
            sum += numeric_exp((double)ranking_at(r, i).logit - (double)top);
            if (sum >= wanted)
                kept = i + 1;
        }
    }
    if (s->min_p > 0) {
        for (size_t i = 1; i < kept; i++) {
            if (numeric_exp((double)ranking_at(r, i).logit - (double)top) < (double)s->min_p)
                kept = i;
        }
    }
    return kept;
}

static int32_t draw(const struct sampler_input *in)
{
    const struct engine_sampling *s = in->sampling;
    const double temperature = (double)s->temperature;
    struct ranking r;
    ranking_init(&r, in->scratch, in->n_vocab);
    const float top = in->scratch[0].logit;
    const size_t kept = count_kept(&r, s, top);
    const double target = rng_unit(s->seed, in->index) * mass_of(&r, kept, top, temperature);
    double sum = 0;
    for (size_t i = 0; i + 1 < kept; i++) {
        struct sampler_candidate c = ranking_at(&r, i);
        sum += numeric_exp(((double)c.logit - (double)top) / temperature);
        if (sum > target)
            return c.id;
    }
    return ranking_at(&r, kept - 1).id;
}

int sampler_choose(const struct sampler_input *in, int32_t *ret, struct error *e)
{
    int rc = gather(in, e);
    if (rc < 0)
        return rc;
    penalise(in);
    *ret = in->sampling->temperature == 0 ? best_of(in->scratch, in->n_vocab) : draw(in);
    return 0;
}
