#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

static void swiglu_range(void *context, size_t first, size_t last, int thread)
{
    struct forward *f = context;
    size_t n = f->hp->n_ff;
    (void)thread;
    for (size_t r = first; r < last; r++)
        f->k->swiglu(f->gate + r * n, f->up + r * n, f->gate + r * n, n);
}

void block_ffn(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = &f->m->layers[il];
    const struct linear gate_up[] = {
        {&l->gate, &l->gate_bias, f->gate, hp->n_ff},
        {&l->up, &l->up_bias, f->up, hp->n_ff},
    };
    const struct linear down = {&l->down, &l->down_bias, f->delta, hp->n_embd};

    norm_rows(f, b->in, &l->ffn_norm, f->norm, b->n);
    linear_group(f, f->norm, hp->n_embd, b->n, gate_up, ARRAY_LEN(gate_up));
    parallel_for(b->n, 1, swiglu_range, f);
    linear_group(f, f->gate, hp->n_ff, b->n, &down, 1);
    add_rows(f, b->x, f->delta, b->n);
}
