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
    }
    return 0;
}
