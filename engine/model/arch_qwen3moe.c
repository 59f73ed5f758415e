/*
 * qwen3moe: qwen3 with a mixture of experts in every layer; softmax over all, weights renormalised.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct key_row keys[] = {
    KEY_ROWS_MOE,
    KEY_ROWS_END,
};

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROWS_ATTENTION,
    TENSOR_ROW(layer, q_norm, "attn_q_norm.weight", DIM_HEAD, DIM_ONE, TENSOR_F32),
    TENSOR_ROW(layer, k_norm, "attn_k_norm.weight", DIM_HEAD, DIM_ONE, TENSOR_F32),
    TENSOR_ROW(layer, ffn_norm, "ffn_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROWS_MOE,
    TENSOR_ROWS_END,
};

static int configure(struct model *m, struct error *e)
{
    struct hparams *hp = &m->hp;
    arch_parts_all(m, PART_GQA);
    hp->expert_gating = GATING_SOFTMAX;
    hp->expert_norm = true;
    if (hp->expert_ff == 0 && hp->n_experts_used > 0)
        hp->expert_ff = hp->n_ff / hp->n_experts_used;
    return arch_experts(m, e);
}

const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .rope_neox = true,
    .keys = keys,
    .experts = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .configure = configure,
    .layer = layer_plain,
};
