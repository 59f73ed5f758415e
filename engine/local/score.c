/* Token ids to logits: the seam for checking against a reference. */
#include <inttypes.h>

#include "engine/local/local.h"

struct score {
    struct engine *en;
    const int32_t *ids;
    uint32_t n;
    uint32_t first_wanted; /* positions from here on want logits */
    uint32_t max_logits;
    int slot;
    engine_row_fn *row;
    void *context;
};

static bool wanted(const struct score *s, uint32_t position)
{
    return position >= s->first_wanted;
}

/* The rows of one step from `at` on: at most `chunk`, at most max_logits that want logits. */
static uint32_t fill_rows(const struct score *s, uint32_t at)
{
    uint32_t n_rows = 0;
    uint32_t n_logits = 0;
    for (uint32_t p = at; p < s->n && n_rows < s->en->plan.chunk; p++) {
        if (wanted(s, p) && n_logits == s->max_logits)
            break;
        n_logits += wanted(s, p);
        s->en->rows[n_rows++] = (struct step_row){
            .token = s->ids[p], .position = p, .slot = s->slot, .want_logits = wanted(s, p)};
    }
    return n_rows;
}

static int run(const struct score *s, struct error *e)
{
    for (uint32_t at = 0; at < s->n;) {
        const uint32_t n_rows = fill_rows(s, at);
        int rc = forward_step(s->en->forward, s->en->rows, n_rows, e);
        uint32_t n_logits = 0;
        for (uint32_t p = at; rc == 0 && p < at + n_rows; p++) {
            if (wanted(s, p))
                rc = s->row(s->context, p, forward_logits(s->en->forward, n_logits++),
                            s->en->model.hp.n_vocab, e);
        }
        if (rc < 0)
            return rc;
        at += n_rows;
    }
    return 0;
}

int engine_score(struct engine *en, const int32_t *ids, size_t n, size_t last, engine_row_fn *row,
                 void *context, struct error *e)
{
    if (!en->forward)
        return error_set(e, ERROR_UNSUPPORTED, "%s: opened without weights", en->path);
    if (en->suspended > 0)
        return error_set(e, ERROR_BUSY, "a step of other sequences is suspended");
    if (n > en->plan.ctx)
        return error_set(e, ERROR_CONTEXT, "%zu tokens, the context holds %u", n, en->plan.ctx);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= en->model.hp.n_vocab)
            return error_set(e, ERROR_INVALID, "token %zu is %" PRId32 ", the vocabulary has %u", i,
                             ids[i], en->model.hp.n_vocab);
    }
    const size_t wanted_rows = last == 0 ? n : MIN_OF(last, n);
    struct score s = {.en = en,
                      .ids = ids,
                      .n = (uint32_t)n,
                      .row = row,
                      .context = context,
                      .first_wanted = row ? (uint32_t)(n - wanted_rows) : (uint32_t)n,
                      .max_logits = en->plan.logits,
                      .slot = kv_reserve(en->kv, (uint32_t)n)};
    if (s.slot < 0)
        return error_set(e, ERROR_BUSY, "no state left for %zu tokens beside %u sequences", n,
                         en->n_running);
    int rc = run(&s, e);
    kv_release(en->kv, s.slot);
    return rc;
}
