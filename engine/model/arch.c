#include "engine/model/arch.h"

#include <stdio.h>
#include <string.h>

#define ARCH(ident) extern const struct arch arch_##ident;
#include "engine/model/archs.def"
#undef ARCH

static const struct arch *const archs[] = {
#define ARCH(ident) &arch_##ident,
#include "engine/model/archs.def"
#undef ARCH
};

const struct arch *arch_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        if (str_equal_c(name, archs[i]->name))
            return archs[i];
    }
    return NULL;
}

const char *arch_names(char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(archs) && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", archs[i]->name);
    return out;
}

void arch_parts_all(struct model *m, unsigned parts)
{
    for (uint32_t il = 0; il < m->hp.n_layers; il++)
        m->layers[il].parts = parts;
}

uint64_t arch_dim(const struct hparams *hp, enum dim d)
{
    switch (d) {
    case DIM_ONE:
        return 1;
    case DIM_EMBD:
        return hp->n_embd;
    case DIM_VOCAB:
        return hp->n_vocab;
    case DIM_Q:
        return (uint64_t)hp->n_heads * hp->head_dim;
    case DIM_K:
        return (uint64_t)hp->n_kv_heads * hp->head_dim;
    case DIM_V:
        return (uint64_t)hp->n_kv_heads * hp->value_dim;
    case DIM_OUT:
        return (uint64_t)hp->n_heads * hp->value_dim;
    case DIM_HEAD:
        return hp->head_dim;
    case DIM_FF:
        return hp->n_ff;
    case DIM_ROT_HALF:
        return hp->rope.n_rot / 2;
    case DIM_HEADS:
        return hp->n_heads;
    case DIM_Q_LORA:
        return hp->q_lora;
    case DIM_KV_LORA:
        return hp->kv_lora;
    case DIM_KV_ROW:
        return (uint64_t)hp->kv_lora + hp->rope.n_rot;
    case DIM_NOPE:
        return hp->head_dim - hp->rope.n_rot;
    case DIM_VALUE:
        return hp->value_dim;
    case DIM_KV_B:
        return (uint64_t)hp->n_heads * (hp->head_dim - hp->rope.n_rot + hp->value_dim);
    case DIM_CONV:
        return hp->conv_kernel;
    case DIM_INNER:
        return (uint64_t)hp->n_heads * hp->kda_head_dim;
    case DIM_QKV_INNER:
        return (uint64_t)3 * hp->n_heads * hp->kda_head_dim;
    case DIM_KDA_HEAD:
        return hp->kda_head_dim;
    case DIM_EXPERTS:
        return hp->n_experts;
    case DIM_EXPERT_IN:
        return hp->expert_latent ? hp->expert_latent : hp->n_embd;
    case DIM_EXPERT_FF:
        return hp->expert_ff;
    case DIM_EXPERT_GATE_UP:
        return (uint64_t)2 * hp->expert_ff;
    case DIM_SHARED_FF:
        return hp->shared_ff;
    }
    return 0;
}
