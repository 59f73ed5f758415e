/* What a model is made of, counted from its headers. */
#include "engine/local/local.h"

static uint64_t weights_of(const struct tensor *t)
{
    return t->n_cols * t->n_rows;
}

static uint64_t bytes_of(const struct tensor *t)
{
    return (uint64_t)t->slice_bytes * t->n_slices;
}

static void count_kinds(struct engine_makeup *m, const struct layer *l)
{
    m->n_gqa += (l->parts & PART_GQA) != 0;
    m->n_mla += (l->parts & PART_MLA) != 0;
    m->n_kda += (l->parts & PART_KDA) != 0;
    m->n_dense += (l->parts & PART_DENSE) != 0;
    m->n_moe += (l->parts & PART_MOE) != 0;
}

static void count_experts(struct engine_makeup *m, const struct layer *l, uint32_t n_used)
{
    const struct tensor *t;
    uint64_t one_bytes = 0;
    uint64_t one_weights = 0;
    for (uint32_t i = 0; (t = model_expert_tensor(l, i)) != NULL; i++) {
        m->experts_bytes += bytes_of(t);
        m->experts_weights += weights_of(t);
        one_bytes += t->slice_bytes;
        one_weights += weights_of(t) / t->n_slices;
    }
    m->experts_read_bytes += n_used * one_bytes;
    m->experts_read_weights += n_used * one_weights;
    m->expert_weights = one_weights;
    m->largest_expert_bytes = MAX_OF(m->largest_expert_bytes, one_bytes);
    m->smallest_expert_bytes =
        m->smallest_expert_bytes ? MIN_OF(m->smallest_expert_bytes, one_bytes) : one_bytes;
}

static void count_trunk(struct engine_makeup *m, const struct engine *en)
{
    const struct tensor *embedding = &en->model.token_embd;
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf_n_tensors(en->gguf); i++)
        bytes += gguf_tensor_at(en->gguf, i)->bytes;
    m->trunk_bytes = bytes - m->experts_bytes;
    m->trunk_weights = model_n_params(&en->model) - m->experts_weights;
    m->trunk_read_bytes = m->trunk_bytes;
    m->trunk_read_weights = m->trunk_weights;
    if (en->model.tied)
        return;
    m->trunk_read_bytes -= bytes_of(embedding) - embedding->row_bytes;
    m->trunk_read_weights -= weights_of(embedding) - embedding->n_cols;
}

void engine_makeup(const struct engine *en, struct engine_makeup *ret)
{
    const struct model *model = &en->model;
    *ret = (struct engine_makeup){0};
    if (!en->bound)
        return;
    ret->n_experts = model->hp.n_experts;
    ret->n_experts_used = model->hp.n_experts_used;
    ret->n_experts_shared = model->hp.n_experts_shared;
    for (uint32_t il = 0; il < model->hp.n_layers; il++) {
        count_kinds(ret, &model->layers[il]);
        if (model->layers[il].parts & PART_MOE)
            count_experts(ret, &model->layers[il], model->hp.n_experts_used);
    }
    count_trunk(ret, en);
    const struct kv_shape shape = model_kv_shape(model, en->o.exact);
    ret->cache_bytes = kv_sequence_bytes(&shape, KV_PAGE) / KV_PAGE;
    ret->recurrent_bytes = kv_recurrent_bytes(&shape);
}
