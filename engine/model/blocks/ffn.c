#include "engine/model/blocks/blocks.h"

void activate(const struct forward *f, float *gate, const float *up, size_t n)
{
    if (f->hp->situ_beta > 0.0f)
        f->k->situ(gate, up, gate, n, f->hp->situ_beta, f->hp->situ_linear_beta);
    else
        f->k->swiglu(gate, up, gate, n);
}

struct activation_loop {
    const struct forward *f;
    float *gate;     /* [n][n_ff] */
    const float *up; /* [n][n_ff] */
    size_t n_ff;
};

static void activate_range(void *context, size_t first, size_t last, int thread)
{
    const struct activation_loop *l = context;
    (void)thread;
    for (size_t r = first; r < last; r++)
        activate(l->f, l->gate + r * l->n_ff, l->up + r * l->n_ff, l->n_ff);
}

void activate_rows(struct forward *f, float *gate, const float *up, size_t n_ff, uint32_t n)
{
    struct activation_loop loop = {.f = f, .gate = gate, .up = up, .n_ff = n_ff};
    parallel_for(n, 1, activate_range, &loop);
}

void block_ffn(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = f->layer;
    const struct linear gate_up[] = {
        {&l->gate, &l->gate_bias, f->gate, hp->n_ff},
        {&l->up, &l->up_bias, f->up, hp->n_ff},
    };
    const struct linear down = {&l->down, &l->down_bias, f->delta, hp->n_embd};

    norm_rows(f, b->in, &l->ffn_norm, f->norm, b->n);
    trace_rows(f, "ffn_norm", il, f->norm, hp->n_embd, b->n);
    linear_group(f, f->norm, hp->n_embd, b->n, gate_up, ARRAY_LEN(gate_up));
    activate_rows(f, f->gate, f->up, hp->n_ff, b->n);
    linear_group(f, f->gate, hp->n_ff, b->n, &down, 1);
    trace_rows(f, "ffn_out", il, f->delta, hp->n_embd, b->n);
    add_rows(f, b->x, f->delta, b->n);
}
