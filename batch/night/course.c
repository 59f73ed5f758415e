/* What the samples of a run say: they are counters, so it is differences that count. */
#include "base/compiler.h"
#include "batch/night/parts.h"
#include "batch/worker/gate.h"

/* Unknown where any of the values is. */
static int64_t grown(int64_t before, int64_t now)
{
    return before < 0 || now < 0 ? -1 : MAX_OF(now - before, INT64_C(0));
}

static void add_known(int64_t *sum, int64_t n)
{
    *sum = *sum < 0 || n < 0 ? -1 : *sum + n;
}

enum night_time night_kind_of_time(const struct queue_sample *a, const struct queue_sample *b)
{
    const bool worked = a->running > 0 || b->running > 0 || b->decode_tokens > a->decode_tokens ||
                        b->prompt_tokens > a->prompt_tokens || b->done > a->done;
    return worked ? NIGHT_BUSY : a->stand >= GATE_HOLD ? NIGHT_HELD : NIGHT_IDLE;
}

void night_course(struct night_run *r)
{
    struct night_course c = {0};
    int64_t *const time[] = {&c.busy_us, &c.held_us, &c.idle_us};
    for (size_t i = 0; i < r->n_samples; i++) {
        const struct queue_sample *b = &r->sample[i];
        c.peak_ledger_bytes = MAX_OF(c.peak_ledger_bytes, b->ledger_bytes);
        c.peak_resident_bytes = MAX_OF(c.peak_resident_bytes, b->resident_bytes);
        if (i == 0)
            continue;
        const struct queue_sample *a = &r->sample[i - 1];
        *time[night_kind_of_time(a, b)] += b->elapsed_us - a->elapsed_us;
        c.prompt_tokens += b->prompt_tokens - a->prompt_tokens;
        c.decode_tokens += b->decode_tokens - a->decode_tokens;
        c.read_bytes += b->read_bytes - a->read_bytes;
        add_known(&c.pressure_some_us, grown(a->pressure_some_us, b->pressure_some_us));
        add_known(&c.pressure_full_us, grown(a->pressure_full_us, b->pressure_full_us));
        add_known(&c.major_faults, grown(a->major_faults, b->major_faults));
        add_known(&c.refaults, grown(a->refaults, b->refaults));
        add_known(&c.throttled_us, grown(a->throttled_us, b->throttled_us));
        add_known(&c.limit_hits, grown(a->limit_hits, b->limit_hits));
    }
    r->course = c;
}

void night_course_add(struct night_course *sum, const struct night_course *one)
{
    sum->busy_us += one->busy_us;
    sum->held_us += one->held_us;
    sum->idle_us += one->idle_us;
    sum->prompt_tokens += one->prompt_tokens;
    sum->decode_tokens += one->decode_tokens;
    sum->read_bytes += one->read_bytes;
    add_known(&sum->pressure_some_us, one->pressure_some_us);
    add_known(&sum->pressure_full_us, one->pressure_full_us);
    add_known(&sum->major_faults, one->major_faults);
    add_known(&sum->refaults, one->refaults);
    add_known(&sum->throttled_us, one->throttled_us);
    add_known(&sum->limit_hits, one->limit_hits);
    sum->peak_ledger_bytes = MAX_OF(sum->peak_ledger_bytes, one->peak_ledger_bytes);
    sum->peak_resident_bytes = MAX_OF(sum->peak_resident_bytes, one->peak_resident_bytes);
}
