/* What the keys of a mixture of experts must be, and which layers have one. */
#include <stdio.h>

#include "engine/model/arch.h"

static int check_choice(const struct hparams *hp, struct error *e)
{
    uint32_t groups = MAX_OF(hp->n_expert_groups, 1u), used = hp->n_expert_groups_used;
    if (hp->n_experts == 0 || hp->n_experts > EXPERTS_MAX)
        return error_set(e, ERROR_FORMAT, "expert_count is %u, must be 1 to %u", hp->n_experts,
                         EXPERTS_MAX);
    if (hp->n_experts_used == 0 || hp->n_experts_used > hp->n_experts)
        return error_set(e, ERROR_FORMAT, "expert_used_count is %u, must be 1 to %u",
                         hp->n_experts_used, hp->n_experts);
    if (hp->n_experts % groups != 0)
        return error_set(e, ERROR_FORMAT, "expert_group_count %u does not divide expert_count %u",
                         groups, hp->n_experts);
    if (used > groups || (used == 0 && groups > 1))
        return error_set(e, ERROR_FORMAT, "expert_group_used_count is %u, must be 1 to %u", used,
                         groups);
    if (groups > 1 && hp->n_experts / groups * used < hp->n_experts_used)
        return error_set(e, ERROR_FORMAT,
                         "expert_used_count is %u, expert_group_used_count %u groups have %u",
                         hp->n_experts_used, used, hp->n_experts / groups * used);
    if (hp->expert_gating == GATING_NONE || hp->expert_gating > GATING_SOFTMAX_SELECTED)
        return error_set(e, ERROR_FORMAT,
                         "expert_gating_func is %u, must be 1 (softmax), 2 (sigmoid) or 3 "
                         "(softmax of the chosen)",
                         hp->expert_gating);
    if (!(hp->expert_scale >= 0.0f))
        return error_set(e, ERROR_FORMAT, "expert_weights_scale is %g", (double)hp->expert_scale);
    return 0;
}

#define FF_MAX (1u << 24)

static int check_sizes(struct hparams *hp, struct error *e)
{
    uint64_t shared = (uint64_t)hp->n_experts_shared * hp->expert_ff;
    if (hp->expert_ff == 0 || hp->expert_ff > FF_MAX)
        return error_set(e, ERROR_FORMAT, "expert_feed_forward_length is %u, must be 1 to %u",
                         hp->expert_ff, FF_MAX);
    if (hp->expert_latent > FF_MAX)
        return error_set(e, ERROR_FORMAT, "expert_latent_length is %u, must be 0 to %u",
                         hp->expert_latent, FF_MAX);
    if (shared > FF_MAX)
        return error_set(e, ERROR_FORMAT, "expert_shared_count is %u: too wide with %u each",
                         hp->n_experts_shared, hp->expert_ff);
    hp->shared_ff = (uint32_t)shared;
    if (hp->n_dense_layers > hp->n_layers)
        return error_set(e, ERROR_FORMAT, "leading_dense_block_count is %u, block_count %u",
                         hp->n_dense_layers, hp->n_layers);
    if (hp->n_dense_layers > 0 && hp->n_ff == 0)
        return error_set(e, ERROR_FORMAT, "feed_forward_length is 0, must be 1 to %u", FF_MAX);
    return 0;
}

/* Gate and up of the experts in one tensor or in two: what the file has. */
static unsigned gate_up_part(const struct model *m, uint32_t il)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.ffn_gate_up_exps.weight", il);
    return gguf_tensor_find(m->gguf, name) ? PART_GATE_UP : PART_GATE_AND_UP;
}

int arch_experts(struct model *m, struct error *e)
{
    struct hparams *hp = &m->hp;
    int rc = check_choice(hp, e);
    if (rc == 0)
        rc = check_sizes(hp, e);
    for (uint32_t il = 0; rc == 0 && il < hp->n_layers; il++) {
        unsigned parts = PART_MOE | gate_up_part(m, il);
        if (hp->expert_latent > 0)
            parts |= PART_LATENT;
        if (hp->n_experts_shared > 0)
            parts |= PART_SHARED;
        m->layers[il].parts |= il < hp->n_dense_layers ? PART_DENSE : parts;
    }
    return rc;
}
