/*
 * Attention over the residual stream of earlier layers (engine-spec 4.5). Every attn_res_block layers the
 * stream is banked as a checkpoint and starts anew from what the layer adds; what blocks read is a mix of
 * all checkpoints and the stream, weighted by a softmax over scores of their norms.
 *
 * A row is mixed by one thread: scores in the order of the checkpoints, the stream last, sums as the kernels
 * have them. Checkpoints are planned per row of the step: they live through all its layers.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

struct mix_loop {
    struct forward *f;
    const struct block *b;
    const float *w;     /* [n_embd] */
    uint32_t n_sources; /* checkpoints, and the stream itself */
};

uint32_t residual_begun(const struct hparams *hp, uint32_t n_begun)
{
    return hp->attn_res_block && n_begun ? (n_begun - 1) / hp->attn_res_block + 1 : 0;
}

static uint32_t n_checkpoints(const struct hparams *hp)
{
    return residual_begun(hp, hp->n_layers);
}

void residual_lay_out(struct forward *f, struct layout *l, size_t block)
{
    const struct hparams *hp = &f->o.model->hp;
    const size_t n = n_checkpoints(hp), fl = sizeof(float);
    f->res.checkpoints = layout_take(l, f->o.max_rows * n * hp->n_embd, fl);
    f->res.mixed = layout_take(l, n ? block * hp->n_embd : 0, fl);
    f->res.probs = layout_take(l, n ? block * (n + 1) : 0, fl);
    f->res.normed = layout_take(l, n ? (size_t)f->n_threads * hp->n_embd : 0, fl);
}

float *residual_checkpoints(const struct forward *f, size_t row)
{
    return f->res.checkpoints + row * n_checkpoints(f->hp) * f->hp->n_embd;
}

static float *checkpoint(const struct forward *f, const struct block *b, size_t r, uint32_t which)
{
    return residual_checkpoints(f, b->first + r) + (size_t)which * f->hp->n_embd;
}

/* Product with w of x / rms(x); eight lanes of columns mod 8 in f64, summed in ascending order. */
static float score(const struct forward *f, const float *x, const float *w, float *normed)
{
    double lane[8] = {0};
    double sum = 0;
    f->k->rms_norm(x, w, normed, f->hp->n_embd, f->hp->rms_eps);
    for (size_t i = 0; i < f->hp->n_embd; i++)
        lane[i % 8] += (double)normed[i];
    for (size_t i = 0; i < 8; i++)
        sum += lane[i];
    return (float)sum;
}

static void softmax(const struct forward *f, float *x, uint32_t n)
{
    float max = x[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        max = MAX_OF(max, x[i]);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = f->k->exp1(x[i] - max);
        sum += (double)x[i];
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] *= (float)(1.0 / sum);
}

static void mix_range(void *context, size_t first, size_t last, int thread)
{
    const struct mix_loop *loop = context;
    struct forward *f = loop->f;
    const size_t n_embd = f->hp->n_embd;
    const uint32_t n = loop->n_sources;
    float *normed = f->res.normed + (size_t)thread * n_embd;
    for (size_t r = first; r < last; r++) {
        const float *stream = loop->b->x + r * n_embd;
        float *p = f->res.probs + r * n, *out = f->res.mixed + r * n_embd;
        for (uint32_t s = 0; s < n; s++)
            p[s] = score(f, s + 1 < n ? checkpoint(f, loop->b, r, s) : stream, loop->w, normed);
        softmax(f, p, n);
        memset(out, 0, n_embd * sizeof(*out));
        for (uint32_t s = 0; s < n; s++)
            f->k->merge(out, 1.0f, s + 1 < n ? checkpoint(f, loop->b, r, s) : stream, p[s], n_embd);
    }
}

const float *residual_mix(struct forward *f, uint32_t il, uint32_t n_begun, const struct block *b,
                          const struct tensor *w)
{
    struct mix_loop loop = {
        .f = f, .b = b, .w = w->data, .n_sources = residual_begun(f->hp, n_begun) + 1};
    if (n_begun == 0) {
        memcpy(f->res.mixed, b->x, b->n * f->hp->n_embd * sizeof(float));
        return f->res.mixed;
    }
    for_rows(b->n, mix_range, &loop);
    trace_rows(f, "res_probs", il, f->res.probs, loop.n_sources, b->n);
    return f->res.mixed;
}

void residual_bank(struct forward *f, uint32_t il, const struct block *b)
{
    const size_t bytes = f->hp->n_embd * sizeof(float);
    if (il % f->hp->attn_res_block != 0)
        return;
    for (uint32_t r = 0; r < b->n; r++)
        memcpy(checkpoint(f, b, r, il / f->hp->attn_res_block), b->x + r * f->hp->n_embd, bytes);
    memset(b->x, 0, b->n * bytes);
}
