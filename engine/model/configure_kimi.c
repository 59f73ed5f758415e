/* What the keys of the Kimi family must be, and which layers are of which kind. */
#include <math.h>
#include <stdio.h>

#include "engine/model/arch.h"

#define HEAD_DIM_MAX 4096u
#define CONV_KERNEL_MAX 64u

static int check_keys(const struct hparams *hp, struct error *e)
{
    if (hp->kda_head_dim == 0 || hp->kda_head_dim > HEAD_DIM_MAX)
        return error_set(e, ERROR_FORMAT, "kda.head_dim is %u, must be 1 to %u", hp->kda_head_dim,
                         HEAD_DIM_MAX);
    if (hp->conv_kernel == 0 || hp->conv_kernel > CONV_KERNEL_MAX)
        return error_set(e, ERROR_FORMAT, "ssm.conv_kernel is %u, must be 1 to %u", hp->conv_kernel,
                         CONV_KERNEL_MAX);
    if (!(hp->kda_gate_lower_bound < 0.0f))
        return error_set(e, ERROR_FORMAT, "kda.gate_lower_bound is %g, must be below 0",
                         (double)hp->kda_gate_lower_bound);
    const uint64_t state = (uint64_t)hp->n_heads * hp->kda_head_dim *
                           (hp->kda_head_dim + (uint64_t)3 * (hp->conv_kernel - 1));
    if (state > UINT32_MAX)
        return error_set(e, ERROR_FORMAT,
                         "head_count %u with kda.head_dim %u: a state of %llu numbers in a layer",
                         hp->n_heads, hp->kda_head_dim, (unsigned long long)state);
    return 0;
}

static bool has_tensor(const struct model *m, uint32_t il, const char *name)
{
    char full[96];
    snprintf(full, sizeof(full), "blk.%u.%s", il, name);
    return gguf_tensor_find(m->gguf, full) != NULL;
}

/* The sizes of a head have no default: what they would be without their keys is another model. */
static int require_heads(const struct model *m, struct error *e)
{
    static const char *const keys[] = {"attention.key_length_mla", "attention.value_length_mla"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(keys); i++) {
        char name[64];
        uint32_t value = 0;
        snprintf(name, sizeof(name), "%s.%s", m->arch->name, keys[i]);
        rc = gguf_u32(m->gguf, name, true, &value, e);
        if (rc == 0 && value == 0)
            rc = error_set(e, ERROR_FORMAT, "%s is 0", name);
    }
    return rc;
}

int kimi_configure(struct model *m, struct error *e)
{
    struct hparams *hp = &m->hp;
    char name[64];
    struct gguf_value value;
    snprintf(name, sizeof(name), "%s.kda.gate_lower_bound", m->arch->name);
    if (!gguf_find(m->gguf, name, &value))
        hp->kda_gate_lower_bound = -INFINITY;
    hp->rope.none = true;
    for (uint32_t il = 0; il < hp->n_layers; il++) {
        unsigned delta =
            PART_KDA | (has_tensor(m, il, "attn_qkv.weight") ? PART_QKV_FUSED : PART_QKV_SPLIT);
        m->layers[il].parts = m->layers[il].n_kv_heads == 0 ? delta : PART_MLA;
    }
    int rc = require_heads(m, e);
    if (rc == 0)
        rc = check_keys(hp, e);
    return rc == 0 ? mla_configure(m, e) : rc;
}
