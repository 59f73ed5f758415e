/*
 * deepseek2 (DeepSeek-V2 and V3, Kimi-K2): latent attention, a mixture of experts after the leading
 * dense layers. Files of before the absorbed form have attn_kv_b and no keys for it; those of V2 say
 * nothing of gating and have no selection bias; "lite" ones have queries of full rank.
 */
#include "base/numeric.h"
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct key_row keys[] = {
    KEY_ROWS_MLA,
    KEY_ROWS_MOE,
    KEY_ROWS_ROUTER,
    KEY_ROWS_END,
};

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROW(layer, attn_norm, "attn_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROWS_MLA,
    TENSOR_ROWS_FFN,
    TENSOR_ROWS_MOE,
    TENSOR_ROW_ROUTER_BIAS(TENSOR_OPTIONAL),
    TENSOR_ROWS_SHARED,
    TENSOR_ROWS_END,
};

/*
 * YaRN stretches the angles and flattens the softmax less, by its factor's logarithm; with a log
 * multiplier that is all in the softmax's scale and cos and sin stay as they are (engine-spec 4.1).
 */
static void configure_yarn(struct hparams *hp)
{
    struct rope_params *rope = &hp->rope;
    const float stretch = 0.1f * (float)numeric_log(1.0f / rope->freq_scale);
    const float all_dim = rope->log_multiplier / 0.1f;
    if (rope->ext_factor != 0.0f && all_dim != 0.0f)
        rope->attn_factor /= 1.0f + stretch; /* rope_angles multiplies by it */
    const float scale = rope->attn_factor * (1.0f + stretch) * (1.0f + all_dim * stretch);
    hp->attention_scale *= scale * scale;
}

static int configure(struct model *m, struct error *e)
{
    struct hparams *hp = &m->hp;
    arch_parts_all(m, PART_MLA);
    configure_yarn(hp);
    if (hp->expert_gating == GATING_NONE)
        hp->expert_gating = GATING_SOFTMAX;
    int rc = mla_configure(m, e);
    return rc == 0 ? arch_experts(m, e) : rc;
}

const struct arch arch_deepseek2 = {
    .name = "deepseek2",
    .rope_neox = false,
    .keys = keys,
    .experts = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .configure = configure,
    .layer = layer_plain,
};
