/* Where a model's experts are, and a store over them. */
#include "base/alloc.h"
#include "engine/model/model.h"

const struct tensor *model_expert_tensor(const struct layer *l, uint32_t i)
{
    const struct tensor *const all[] = {&l->gate_exps, &l->up_exps, &l->gate_up_exps,
                                        &l->down_exps};
    for (size_t at = 0; at < ARRAY_LEN(all); at++) {
        if (all[at]->file && i-- == 0)
            return all[at];
    }
    return NULL;
}

static void find_layer(struct expert_layer *ret, const struct layer *l)
{
    const struct tensor *t;
    while ((t = model_expert_tensor(l, ret->n_slices)) != NULL)
        ret->slice[ret->n_slices++] = (struct expert_slice){
            .shard = t->file->shard, .offset = t->file->offset, .bytes = t->slice_bytes};
}

static int check_file(const void *context, uint32_t shard, const struct file *f, struct error *e)
{
    const struct model *m = context;
    return gguf_shard_same(m->gguf, shard, f, e);
}

/* The same that is asked of the trunk at load. */
static int check_slice(const void *context, uint32_t layer, uint32_t slice, const void *data,
                       struct error *e)
{
    const struct model *m = context;
    const struct tensor *t = model_expert_tensor(&m->layers[layer], slice);
    const size_t n_blocks = (size_t)(t->n_rows / t->n_slices) * (t->n_cols / t->quant->block_elems);
    if (quant_finite(t->quant, data, n_blocks))
        return 0;
    return error_set(e, ERROR_FORMAT, "%s: tensor '%.*s' holds what is not a finite number",
                     gguf_shard_path(m->gguf, t->file->shard), (int)t->file->name.len,
                     t->file->name.ptr);
}

int model_find_experts(struct model *m, struct error *e)
{
    const struct hparams *hp = &m->hp;
    if (hp->n_experts == 0)
        return 0;
    m->experts = mem_array(hp->n_layers, sizeof(*m->experts));
    if (!m->experts)
        return error_set(e, ERROR_NOMEM, "no memory for the places of experts");
    for (uint32_t il = 0; il < hp->n_layers; il++)
        find_layer(&m->experts[il], &m->layers[il]);
    m->n_experts = experts_count(m->experts, hp->n_layers, hp->n_experts);
    return 0;
}

uint64_t model_experts_bytes(const struct model *m, uint64_t n_slots)
{
    if (m->n_experts == 0)
        return 0;
    return experts_store_bytes(m->experts, m->hp.n_layers, m->hp.n_experts, n_slots);
}

int model_experts_open(const struct model *m, const struct model_experts_options *from,
                       struct expert_store **ret, struct error *e)
{
    const uint32_t n_shards = (uint32_t)gguf_n_shards(m->gguf);
    *ret = NULL;
    if (m->n_experts == 0)
        return 0;
    const char **paths = mem_array(n_shards, sizeof(*paths));
    if (!paths)
        return error_set(e, ERROR_NOMEM, "no memory for the names of %u files", n_shards);
    for (uint32_t i = 0; i < n_shards; i++)
        paths[i] = gguf_shard_path(m->gguf, i);
    const struct expert_store_options o = {.ledger = from->ledger,
                                           .io = from->io,
                                           .lookahead = from->lookahead,
                                           .reading = from->reading,
                                           .reading_context = from->reading_context,
                                           .n_reads = from->n_reads,
                                           .paths = paths,
                                           .n_shards = n_shards,
                                           .layers = m->experts,
                                           .n_layers = m->hp.n_layers,
                                           .n_experts = m->hp.n_experts,
                                           .n_slots = from->n_slots,
                                           .policy = from->policy,
                                           .check = check_slice,
                                           .opened = check_file,
                                           .check_context = m};
    int rc = experts_open(ret, &o, e);
    mem_free(paths);
    return rc;
}
