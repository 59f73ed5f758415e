/* What running jobs have got, into the queue: many jobs in one transaction. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "batch/host/figures.h"
#include "batch/piece.h"
#include "batch/worker/parts.h"

#define SAVE_EVERY_US 1000000

bool worker_save_due(const struct worker *w)
{
    return clock_mono_us() >= w->next_save_us;
}

/* ---- Progress --------------------------------------------------------------------------------- */

static int make_piece(struct running *r, struct error *e)
{
    buf_clear(&r->piece);
    return piece_put(&r->piece, buf_str(&r->text), (const int32_t *)(const void *)r->tokens.ptr,
                     r->tokens.len / sizeof(int32_t), e);
}

/* Whether what it has got goes on counting: an answer or an error replaces it. */
static bool has_progress(const struct running *r)
{
    return r->used && r->tokens.len && (!r->ended || r->end.kind == QUEUE_END_RELEASE);
}

static int save_progress(struct worker *w, struct error *e)
{
    size_t n = 0;
    int rc = 0;
    for (size_t i = 0; i < w->n_slots && rc == 0; i++) {
        struct running *r = &w->run[i];
        if (!has_progress(r))
            continue;
        rc = make_piece(r, e);
        w->progress[n] = (struct queue_progress){.job = r->claim->job,
                                                 .attempt = r->claim->attempt,
                                                 .fingerprint = r->fingerprint,
                                                 .bytes = buf_str(&r->piece)};
        w->of[n++] = r;
    }
    if (rc == 0 && n)
        rc = queue_progress_append(w->queue, w->progress, n, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        w->of[i]->begun = true;
        buf_clear(&w->of[i]->tokens);
        buf_clear(&w->of[i]->text);
        if (w->progress[i].refused)
            worker_drop(w, w->of[i]);
    }
    return rc;
}

/* ---- Ends ------------------------------------------------------------------------------------- */

static void fill_timing(struct running *r, const struct pressure_sample *now, const char *peak_json)
{
    const struct pressure_sample *before = &r->before;
    const struct engine_usage *u = &r->usage;
    r->end.timing = (struct queue_timing){
        .load_ms = r->load_ms,
        .prefill_tokens = u->prompt_tokens,
        .prefill_ms = (int64_t)u->prefill_ms,
        .decode_tokens = u->completion_tokens - MIN_OF(u->resumed_tokens, u->completion_tokens),
        .decode_ms = (int64_t)u->decode_ms,
        .resumed_tokens = u->resumed_tokens,
        .read_bytes = (int64_t)u->bytes_read,
        .expert_hits = (int64_t)u->expert_hits,
        .expert_misses = (int64_t)u->expert_misses,
        .major_faults = figure_since(before->major_faults, now->major_faults),
        .pressure_some_us = figure_since(before->system.some_us, now->system.some_us),
        .pressure_full_us = figure_since(before->system.full_us, now->system.full_us),
        .refaults = figure_since(before->refaults, now->refaults),
        .throttled_us = figure_since(before->throttled_us, now->throttled_us),
        .limit_hits = figure_since(before->limit_hits, now->limit_hits),
        .peak_resident_bytes = now->resident_peak_bytes,
        .peak_json = str_of(peak_json),
    };
}

static void print_peaks(const struct worker *w, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "{");
    for (int c = 0; c < LEDGER_CATEGORIES; c++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s\"%s\":%llu", c ? "," : "",
                             ledger_category_name((enum ledger_category)c),
                             (unsigned long long)ledger_peak(w->ledger, (enum ledger_category)c));
    snprintf(out + used, size - used, "}");
}

/* Whether the request has an answer that says something, from before; one that cannot be read is none. */
static bool has_other_answer(struct worker *w, const struct running *r)
{
    struct queue_show s = {0};
    int rc = queue_show(w->queue, r->claim->request, &s, NULL);
    bool has = rc == 0 && s.request.state == QUEUE_DONE && !s.request.empty;
    queue_show_release(&s);
    return has;
}

static void count_end(struct worker *w, const struct running *r)
{
    struct report *p = &w->report;
    p->sequences_ms += (double)r->end.timing.decode_ms;
    p->sequences_tokens += (uint64_t)r->end.timing.decode_tokens;
    w->n_ended += r->end.kind == QUEUE_END_DONE || r->end.kind == QUEUE_END_FAILED;
    switch (r->end.kind) {
    case QUEUE_END_DONE:
        p->n_done++;
        if (r->empty)
            report_empty(p, r->empty, has_other_answer(w, r));
        break;
    case QUEUE_END_FAILED:
        p->n_failed++;
        report_failure(p, &r->failure);
        worker_hook_failed(w, r);
        break;
    case QUEUE_END_RETRY:
    case QUEUE_END_RELEASE:
        p->n_returned++;
        break;
    }
}

static void log_end(const struct running *r, bool refused)
{
    static const char *const names[] = {[QUEUE_END_DONE] = "done",
                                        [QUEUE_END_FAILED] = "failed",
                                        [QUEUE_END_RETRY] = "retry",
                                        [QUEUE_END_RELEASE] = "released"};
    log_event(LOG_DEBUG, "worker", "ended job=%lld attempt=%lld end=%s%s tokens=%u",
              (long long)r->end.job, (long long)r->end.attempt, names[r->end.kind],
              refused ? " refused" : "", r->usage.completion_tokens);
}

static int save_ends(struct worker *w, struct error *e)
{
    struct pressure_sample now;
    char peaks[512];
    size_t n = 0;
    for (size_t i = 0; i < w->n_slots; i++) {
        struct running *r = &w->run[i];
        if (!r->used || !r->ended)
            continue;
        if (n == 0) {
            print_peaks(w, peaks, sizeof(peaks));
            pressure_read(&w->place, &now);
        }
        fill_timing(r, &now, peaks);
        w->ends[n] = r->end;
        w->of[n++] = r;
    }
    int rc = n ? queue_end(w->queue, w->ends, n, e) : 0;
    /* What waits for these is let go by a scan; before it, worker_idle would find nothing left. */
    if (n && rc == 0)
        w->fresh = false;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!w->ends[i].refused)
            count_end(w, w->of[i]);
        if (w->ends[i].kind == QUEUE_END_DONE || w->ends[i].kind == QUEUE_END_FAILED)
            worker_forget_state(w, w->of[i]);
        log_end(w->of[i], w->ends[i].refused);
        worker_drop(w, w->of[i]);
    }
    return rc;
}

int worker_save(struct worker *w, struct error *e)
{
    w->next_save_us = clock_mono_us() + SAVE_EVERY_US;
    int rc = save_progress(w, e);
    return rc ? rc : save_ends(w, e);
}

/*
 * The engine has forgotten the jobs even when the database cannot be written now: then the next
 * worker_save gives them back.
 */
int worker_give_back(struct worker *w, struct error *e)
{
    /* Tokens that were computed are kept, and answers that are whole; what fails here is computed again. */
    (void)worker_take_events(w, NULL);
    for (size_t i = 0; i < w->n_slots; i++) {
        struct running *r = &w->run[i];
        if (!r->used || r->ended)
            continue;
        worker_keep_state(w, r);
        engine_cancel(w->engine, (uint64_t)r->claim->job);
        r->end = (struct queue_end){
            .job = r->claim->job, .attempt = r->claim->attempt, .kind = QUEUE_END_RELEASE};
        r->usage.completion_tokens = r->n_decoded;
        r->usage.prompt_tokens = r->prefilled;
        r->ended = true;
    }
    return worker_save(w, e);
}
