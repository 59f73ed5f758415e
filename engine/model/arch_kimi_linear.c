/*
 * kimi-linear: three layers of delta attention to one of latent attention, no rope at all, a mixture of
 * experts after the leading dense layers. Its weights are renormalised whatever the file says.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct key_row keys[] = {
    KEY_ROWS_MLA, KEY_ROWS_KDA, KEY_ROWS_MOE, KEY_ROWS_ROUTER, KEY_ROWS_END,
};

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROW(layer, attn_norm, "attn_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROWS_KDA,
    TENSOR_PART(PART_KDA, g_a, "ssm_g_a.weight", DIM_EMBD, DIM_KDA_HEAD, TENSOR_REQUIRED),
    TENSOR_PART(PART_KDA, g_b, "ssm_g_b.weight", DIM_KDA_HEAD, DIM_INNER, TENSOR_REQUIRED),
    TENSOR_ROWS_MLA,
    TENSOR_ROWS_FFN,
    TENSOR_ROWS_MOE,
    TENSOR_ROW_ROUTER_BIAS(TENSOR_REQUIRED),
    TENSOR_ROWS_SHARED,
    TENSOR_ROWS_END,
};

static int configure(struct model *m, struct error *e)
{
    m->hp.expert_norm = true;
    int rc = kimi_configure(m, e);
    return rc == 0 ? arch_experts(m, e) : rc;
}

const struct arch arch_kimi_linear = {
    .name = "kimi-linear",
    .hybrid = true,
    .keys = keys,
    .experts = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .configure = configure,
    .layer = layer_plain,
};
