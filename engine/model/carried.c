/* What rows carry from layer to layer: see step.h. */
#include <string.h>

#include "engine/model/blocks/blocks.h"

static size_t stream_bytes(const struct hparams *hp)
{
    return hp->n_embd * sizeof(float);
}

static size_t checkpoints_bytes(const struct hparams *hp, uint32_t layer)
{
    return residual_begun(hp, layer) * stream_bytes(hp);
}

uint64_t forward_carried_bytes(const struct model *m, uint32_t layer)
{
    return stream_bytes(&m->hp) + checkpoints_bytes(&m->hp, layer);
}

int forward_carried_visit(struct forward *f, uint32_t layer, uint32_t first, uint32_t n,
                          kv_visit_fn *fn, void *context, struct error *e)
{
    const size_t begun = checkpoints_bytes(f->hp, layer);
    int rc = 0;
    for (size_t r = first; rc == 0 && r < (size_t)first + n; r++) {
        rc = fn(context, f->residual + r * f->hp->n_embd, stream_bytes(f->hp), e);
        if (rc == 0 && begun > 0)
            rc = fn(context, residual_checkpoints(f, r), begun, e);
    }
    return rc;
}

void forward_carried_move(struct forward *f, uint32_t to, uint32_t first, uint32_t n)
{
    const struct hparams *hp = f->hp;
    memmove(f->residual + (size_t)to * hp->n_embd, f->residual + (size_t)first * hp->n_embd,
            n * stream_bytes(hp));
    if (hp->attn_res_block > 0)
        memmove(residual_checkpoints(f, to), residual_checkpoints(f, first),
                n * checkpoints_bytes(hp, hp->n_layers));
}
