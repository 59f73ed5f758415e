#include "batch/night/series.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* About as many as a plot has room for. */
#define POINTS 320
#define MIB 1048576.0

static double per_second(const struct queue_sample *a, const struct queue_sample *b, int64_t before,
                         int64_t now)
{
    const double us = (double)(b->elapsed_us - a->elapsed_us);
    return us > 0 && before >= 0 && now >= before ? (double)(now - before) * 1e6 / us : NAN;
}

double night_written_rate(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)before;
    return per_second(a, b, a->decode_tokens, b->decode_tokens);
}

double night_read_rate(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)before;
    return per_second(a, b, a->prompt_tokens, b->prompt_tokens);
}

double night_disk_rate(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)before;
    return per_second(a, b, a->read_bytes, b->read_bytes) / MIB;
}

double night_done(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)b;
    return before + (double)(a->done + a->failed);
}

double night_resident(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)b;
    (void)before;
    return a->resident_bytes >= 0 ? (double)a->resident_bytes : NAN;
}

double night_planned(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)b;
    (void)before;
    return (double)a->ledger_bytes;
}

/* Microseconds of each second, as percent. */
double night_some(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)before;
    return per_second(a, b, a->pressure_some_us, b->pressure_some_us) / 1e4;
}

double night_full(const struct queue_sample *a, const struct queue_sample *b, double before)
{
    (void)before;
    return per_second(a, b, a->pressure_full_us, b->pressure_full_us) / 1e4;
}

static void add(struct night_series *s, double x, double y)
{
    s->x[s->n] = s->n > 0 && x < s->x[s->n - 1] ? s->x[s->n - 1] : x;
    s->y[s->n++] = y;
    s->any = s->any || (isfinite(y) && y != 0);
}

/* At most one point more than there are samples, and the gap. */
static void add_run(struct night_series *s, const struct night_run *r, night_measure measure,
                    double before, int64_t least_us)
{
    const struct queue_sample *a = r->sample;
    double last = NAN;
    for (size_t i = 1; i < r->n_samples; i++) {
        const struct queue_sample *b = &r->sample[i];
        if (b->elapsed_us - a->elapsed_us < least_us && i + 1 < r->n_samples)
            continue;
        add(s, (double)a->at_us / 1e6, measure(a, b, before));
        last = measure(b, b, before);
        last = isnan(last) ? s->y[s->n - 1] : last; /* a rate has none at one moment */
        a = b;
    }
    if (a && a != r->sample)
        add(s, (double)a->at_us / 1e6, last);
    if (a)
        add(s, (double)a->at_us / 1e6, NAN);
}

int night_series(const struct night *n, night_measure measure, struct night_series *ret,
                 struct error *e)
{
    struct night_series s = {0};
    size_t room = 1;
    double before = 0;
    for (size_t i = 0; i < n->n_runs; i++)
        room += n->run[i].n_samples + 2;
    s.x = mem_array(room, sizeof(*s.x));
    s.y = mem_array(room, sizeof(*s.y));
    if (!s.x || !s.y) {
        night_series_release(&s);
        return error_set(e, ERROR_NOMEM, "out of memory for a plot of %zu points", room);
    }
    for (size_t i = 0; i < n->n_runs; i++) {
        const struct night_run *r = &n->run[i];
        /* Of a part of a run: what came before the part is not of this night. */
        const double earlier =
            r->n_samples > 0 ? (double)(r->sample[0].done + r->sample[0].failed) : 0;
        add_run(&s, r, measure, before - earlier, (n->until_us - n->from_us) / POINTS);
        before += (double)(r->sums.done + r->sums.failed);
    }
    *ret = s;
    return 0;
}

void night_series_release(struct night_series *s)
{
    mem_free(s->x);
    mem_free(s->y);
    memset(s, 0, sizeof(*s));
}
