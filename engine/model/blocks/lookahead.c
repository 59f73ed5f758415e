/*
 * What the next layer may want of the experts: its own norm and router, on the residual stream as it is
 * before its attention. With more rows than one most guesses would be needless, and the disk has no time to
 * spare. Of a layer that is streamed nothing is expected: its router is not here yet.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

/* With attention residuals a network reads a mix, of what there is until now. */
static const float *input_of(struct forward *f, uint32_t il, const struct block *b)
{
    const struct layer *l = &f->m->layers[il];
    return l->ffn_res.data ? residual_mix(f, il, il, b, &l->ffn_res) : b->x;
}

void moe_expect(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const uint32_t next = il + 1;
    const struct layer *l = &f->m->layers[next];
    struct moe *moe = &f->moe;
    uint32_t ids[EXPERTS_MAX];
    if (next >= hp->n_layers || !(l->parts & PART_MOE) || !l->router.data)
        return;
    const struct linear router = {&l->router, NULL, moe->probs, hp->n_experts};
    norm_rows(f, input_of(f, next, b), &l->ffn_norm, f->norm, 1);
    linear_group(f, f->norm, hp->n_embd, 1, &router, 1);
    router_choose(hp, f->k, l->router_bias.data, moe->probs, moe->scores, moe->routes);
    for (uint32_t i = 0; i < hp->n_experts_used; i++)
        ids[i] = moe->routes[i].expert;
    experts_expect(f->o.experts, next, ids, hp->n_experts_used);
}
