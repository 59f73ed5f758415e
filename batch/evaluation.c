#include "batch/evaluation.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "batch/saved_logits.h"

#define TEXT_MAX_BYTES (1u << 30)

struct evaluation {
    const struct evaluation_options *o;
    struct ledger *ledger;
    struct engine *model;
    struct buf ids;     /* int32_t: the text's, in windows */
    uint64_t ids_bytes; /* of them in the ledger */
    struct saved_shape shape;
    uint32_t n_scored;    /* of a window */
    struct engine *other; /* the reference, if it is a model */
    struct saved_reader saved;
    float *rows; /* of the reference: a window's, or one that was read */
    size_t rows_bytes;
    struct file_replace save;
    struct divergence sums;
    const int32_t *window_ids; /* of the window at work */
    int64_t started_us;
};

/* ------------------------------------------------------------------ the text */

/* While ids are made there are the text, and its ids twice: in bytes hardly more than four texts. */
#define TOKENISING_FACTOR 4u

static int text_bytes(const char *path, uint64_t *ret, struct error *e)
{
    struct file f;
    int rc = file_open(&f, path, e);
    if (rc < 0)
        return rc;
    *ret = f.size;
    file_close(&f);
    return 0;
}

static int tokenise(struct evaluation *v, struct error *e)
{
    struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    buf_init(&v->ids, SIZE_MAX);
    int rc = file_read_all(v->o->text_path, TEXT_MAX_BYTES, &text, e);
    struct str s = buf_str(&text);
    if (s.len > 0 && s.ptr[s.len - 1] == '\n')
        s.len--;
    if (rc == 0)
        rc = engine_tokenize(v->model, s, false, true, &v->ids, e);
    buf_release(&text);
    return rc;
}

static int read_ids(struct evaluation *v, struct error *e)
{
    uint64_t bytes = 0;
    int rc = text_bytes(v->o->text_path, &bytes, e);
    if (rc < 0)
        return rc;
    bytes *= TOKENISING_FACTOR;
    rc = ledger_reserve(v->ledger, LEDGER_IO, bytes, "the text", e);
    if (rc < 0)
        return rc;
    rc = tokenise(v, e);
    ledger_return(v->ledger, LEDGER_IO, bytes);
    if (rc == 0)
        rc = ledger_reserve(v->ledger, LEDGER_IO, v->ids.len, "the ids of the text", e);
    v->ids_bytes = rc == 0 ? v->ids.len : 0;
    return rc;
}

static int32_t *window_at(const struct evaluation *v, uint32_t i)
{
    return (int32_t *)(void *)v->ids.ptr + (size_t)i * v->o->window;
}

/* Puts the BOS, if there is one, at the head of every window. */
static int begin_windows(struct evaluation *v, struct error *e)
{
    struct buf bos;
    buf_init(&bos, sizeof(int32_t));
    int rc = engine_tokenize(v->model, str_of(""), false, true, &bos, e);
    for (uint32_t i = 0; rc == 0 && bos.len == sizeof(int32_t) && i < v->shape.n_windows; i++)
        memcpy(window_at(v, i), bos.ptr, sizeof(int32_t));
    buf_release(&bos);
    return rc;
}

static int cut_windows(struct evaluation *v, struct error *e)
{
    const uint32_t window = v->o->window;
    const size_t n_ids = v->ids.len / sizeof(int32_t);
    uint64_t n = n_ids / window;
    if (n == 0)
        return error_set(e, ERROR_INVALID,
                         "%s: %zu tokens are less than one window of %" PRIu32 " (-c N)",
                         v->o->text_path, n_ids, window);
    n = MIN_OF(n, (uint64_t)UINT32_MAX);
    if (v->o->max_windows > 0)
        n = MIN_OF(n, (uint64_t)v->o->max_windows);
    v->shape.window = window;
    v->shape.n_windows = (uint32_t)n;
    v->n_scored = saved_scored(window);
    return begin_windows(v, e);
}

/* ------------------------------------------------------------------ the budget */

/* What a model would take: all it can use, and the least. Nothing is loaded. */
static int plan_of(const struct evaluation *v, const char *path, struct engine_plan *plan,
                   struct engine_info *info, struct error *e)
{
    struct engine_options o = v->o->engine;
    struct engine *en = NULL;
    o.model_path = path;
    o.ledger = NULL;
    o.headers_only = true;
    int rc = engine_open(&en, &o, e);
    if (rc == 0)
        rc = engine_plan_check(en, e);
    if (rc == 0) {
        engine_plan(en, plan);
        engine_describe(en, info);
    }
    engine_close(en);
    return rc;
}

/* The reference's share where both want more than there is: half, but what either needs at least. */
static uint64_t share_of(const struct engine_plan *ours, const struct engine_plan *other,
                         uint64_t budget_bytes)
{
    const uint64_t left = budget_bytes - MIN_OF(budget_bytes, ours->smallest_bytes);
    const uint64_t share = MIN_OF(MIN_OF(budget_bytes / 2, other->total_bytes), left);
    return MAX_OF(share, other->smallest_bytes);
}

/*
 * Experts take all that a budget leaves, so what comes after the model is set aside before it is
 * opened: the text, the reference and its rows.
 */
static int set_aside(struct evaluation *v, uint64_t *ret, struct error *e)
{
    struct engine_plan ours = {0}, other = {0};
    struct engine_info info = {0};
    uint64_t limit = ledger_limit(v->ledger), text = 0;
    int rc = plan_of(v, v->o->engine.model_path, &ours, &info, e);
    if (rc == 0)
        rc = text_bytes(v->o->text_path, &text, e);
    if (rc < 0)
        return rc;
    const bool model = v->o->against && !saved_is(v->o->against);
    const uint32_t n_rows = model ? saved_scored(v->o->window) : v->o->against ? 1 : 0;
    /* The ids of both, and one text being tokenised. */
    uint64_t bytes =
        text * (TOKENISING_FACTOR + 1) + (uint64_t)n_rows * info.n_vocab * sizeof(float);
    if (model) {
        rc = plan_of(v, v->o->against, &other, &info, e);
        if (rc < 0)
            return error_wrap(e, "--against");
        bytes += share_of(&ours, &other, limit - MIN_OF(limit, bytes));
    }
    *ret = limit == LEDGER_NO_LIMIT ? 0 : bytes;
    return *ret ? ledger_reserve(v->ledger, LEDGER_IO, *ret, "the text and the reference", e) : 0;
}

/* ------------------------------------------------------------------ the reference */

static int take_rows(struct evaluation *v, uint32_t n_rows, struct error *e)
{
    const size_t bytes = (size_t)n_rows * v->shape.n_vocab * sizeof(float);
    void *block = NULL;
    int rc = ledger_alloc(v->ledger, LEDGER_SCRATCH, bytes, "logits of the reference", &block, e);
    if (rc < 0)
        return rc;
    v->rows = block;
    v->rows_bytes = bytes;
    return 0;
}

/* The same text must be the same words to both, or their predictions are about different things. */
static int check_vocabulary(const struct evaluation *v, struct error *e)
{
    struct engine_info info;
    struct evaluation other = {.o = v->o, .ledger = v->ledger, .model = v->other};
    engine_describe(v->other, &info);
    if (info.n_vocab != v->shape.n_vocab)
        return error_set(e, ERROR_INVALID, "%s: a vocabulary of %u tokens, %s has %u", info.path,
                         info.n_vocab, v->o->engine.model_path, v->shape.n_vocab);
    int rc = read_ids(&other, e);
    if (rc == 0)
        rc = cut_windows(&other, e);
    if (rc == 0 &&
        (other.ids.len != v->ids.len || memcmp(other.ids.ptr, v->ids.ptr, v->ids.len) != 0))
        rc =
            error_set(e, ERROR_INVALID, "%s: its tokeniser makes other words of the text than %s's",
                      info.path, v->o->engine.model_path);
    ledger_return(v->ledger, LEDGER_IO, other.ids_bytes);
    buf_release(&other.ids);
    return rc;
}

static int open_other_model(struct evaluation *v, struct error *e)
{
    struct engine_options o = v->o->engine;
    o.model_path = v->o->against;
    int rc = take_rows(v, v->n_scored, e);
    if (rc == 0)
        rc = engine_open(&v->other, &o, e);
    if (rc == 0)
        rc = check_vocabulary(v, e);
    if (rc < 0)
        error_wrap(e, "--against");
    return rc;
}

static int open_reference(struct evaluation *v, struct error *e)
{
    const char *path = v->o->against;
    const int32_t *ids = window_at(v, 0);
    if (!path)
        return 0;
    if (!saved_is(path))
        return open_other_model(v, e);
    int rc = saved_open(&v->saved, path, &v->shape, ids, e);
    return rc == 0 ? take_rows(v, 1, e) : rc;
}

static int keep_row(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                    struct error *e)
{
    const struct evaluation *v = context;
    (void)e;
    const size_t row = position - v->o->window / 2;
    memcpy(v->rows + row * n_vocab, logits, n_vocab * sizeof(*logits));
    return 0;
}

/* What the reference says after that position of the window at work; NULL: there is none. */
static int reference_row(struct evaluation *v, uint32_t position, const float **ret,
                         struct error *e)
{
    const size_t row = position - v->o->window / 2;
    *ret = v->other ? v->rows + row * v->shape.n_vocab : v->rows;
    return v->saved.file.path ? saved_read(&v->saved, v->rows, v->shape.n_vocab, e) : 0;
}

/* ------------------------------------------------------------------ the work */

static int score_row(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                     struct error *e)
{
    struct evaluation *v = context;
    const float *reference = NULL;
    int rc = reference_row(v, position, &reference, e);
    if (rc == 0)
        rc = divergence_add(&v->sums, logits, reference, n_vocab, v->window_ids[position + 1], e);
    if (rc == 0 && v->o->save_logits)
        rc = saved_write(&v->save, logits, n_vocab, e);
    return rc;
}

static void show_progress(const struct evaluation *v, uint32_t n_done)
{
    char left[24];
    const struct figure p = divergence_perplexity(&v->sums);
    const int64_t elapsed_us = clock_mono_us() - v->started_us;
    const uint32_t n_left = v->shape.n_windows - n_done;
    if (n_left == 0 || !report_due(v->o->report))
        return;
    report_line(v->o->report,
                "%" PRIu32 " of %" PRIu32 " windows, perplexity %.4f +/- %.4f, about %s left",
                n_done, v->shape.n_windows, p.mean, p.error,
                str_format_duration(elapsed_us / 1000000 * n_left / n_done, left));
}

/* The last token of a window is only ever predicted, so it is not fed. */
static int run_window(struct evaluation *v, uint32_t i, struct error *e)
{
    const size_t n = v->o->window - 1;
    v->window_ids = window_at(v, i);
    int rc = 0;
    if (v->other)
        rc = engine_score(v->other, v->window_ids, n, v->n_scored, keep_row, v, e);
    if (rc == 0)
        rc = engine_score(v->model, v->window_ids, n, v->n_scored, score_row, v, e);
    return rc;
}

static int run_windows(struct evaluation *v, struct error *e)
{
    int rc = 0;
    v->started_us = clock_mono_us();
    for (uint32_t i = 0; rc == 0 && i < v->shape.n_windows; i++) {
        rc = run_window(v, i, e);
        if (rc < 0)
            error_wrap(e, "window %" PRIu32, i + 1);
        else
            show_progress(v, i + 1);
    }
    return rc;
}

static int run(struct evaluation *v, struct error *e)
{
    if (!v->o->save_logits)
        return run_windows(v, e);
    int rc = saved_begin(&v->save, v->o->save_logits, &v->shape, window_at(v, 0), e);
    if (rc < 0)
        return rc;
    rc = run_windows(v, e);
    if (rc == 0)
        rc = file_replace_commit(&v->save, e);
    else
        file_replace_abort(&v->save);
    return rc;
}

static int open_model(struct evaluation *v, struct error *e)
{
    struct engine_info info;
    uint64_t aside = 0;
    int rc = set_aside(v, &aside, e);
    if (rc < 0)
        return rc;
    rc = engine_open(&v->model, &v->o->engine, e);
    ledger_return(v->ledger, LEDGER_IO, aside);
    if (rc < 0)
        return rc;
    engine_describe(v->model, &info);
    v->shape.n_vocab = info.n_vocab;
    return 0;
}

static void release(struct evaluation *v)
{
    if (v->rows)
        ledger_release(v->ledger, LEDGER_SCRATCH, v->rows, v->rows_bytes);
    saved_close(&v->saved);
    ledger_return(v->ledger, LEDGER_IO, v->ids_bytes);
    buf_release(&v->ids);
    engine_close(v->other);
    engine_close(v->model);
}

int evaluate(struct evaluation_result *ret, const struct evaluation_options *o, struct error *e)
{
    struct evaluation v = {.o = o, .ledger = o->engine.ledger};
    int rc = open_model(&v, e);
    if (rc == 0)
        rc = read_ids(&v, e);
    if (rc == 0)
        rc = cut_windows(&v, e);
    if (rc == 0)
        rc = open_reference(&v, e);
    if (rc == 0)
        rc = run(&v, e);
    if (rc == 0)
        *ret =
            (struct evaluation_result){.sums = v.sums,
                                       .n_windows = v.shape.n_windows,
                                       .n_tokens = (uint64_t)v.shape.n_windows * (o->window - 1),
                                       .seconds = (double)(clock_mono_us() - v.started_us) / 1e6};
    release(&v);
    return rc;
}
