/*
 * kimi-k3: kimi-linear with attention over residuals, a full-rank output gate and a bounded decay in delta
 * attention, an output gate in latent attention, experts at a latent width, and SiTU for SwiGLU.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct key_row keys[] = {
    KEY_ROWS_MLA,
    KEY_ROWS_KDA,
    KEY_ROWS_MOE,
    KEY_ROWS_ROUTER,
    KEY_ROW(KEY_F32, kda_gate_lower_bound, "kda.gate_lower_bound", false),
    KEY_ROW(KEY_U32, attn_res_block, "attn_res.block_size", true),
    KEY_ROW(KEY_F32, situ_beta, "activation.situ_beta", true),
    KEY_ROW(KEY_F32, situ_linear_beta, "activation.situ_linear_beta", true),
    KEY_ROW(KEY_U32, expert_latent, "expert_latent_length", false),
    KEY_ROWS_END,
};

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROW(model, output_res, "output_res_score.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROW(layer, attn_norm, "attn_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROW(layer, attn_res, "attn_res_score.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROW(layer, ffn_res, "ffn_res_score.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),
    TENSOR_ROWS_KDA,
    TENSOR_PART(PART_KDA, g, "ssm_g.weight", DIM_EMBD, DIM_INNER, TENSOR_REQUIRED),
    TENSOR_ROWS_MLA,
    TENSOR_PART(PART_MLA, attn_gate, "attn_gate.weight", DIM_EMBD, DIM_OUT, TENSOR_OPTIONAL),
    TENSOR_ROWS_FFN,
    TENSOR_ROWS_MOE,
    TENSOR_ROW_ROUTER_BIAS(TENSOR_REQUIRED),
    TENSOR_ROWS_LATENT,
    TENSOR_ROWS_SHARED,
    TENSOR_ROWS_END,
};

static int configure(struct model *m, struct error *e)
{
    const struct hparams *hp = &m->hp;
    if (hp->attn_res_block == 0)
        return error_set(e, ERROR_FORMAT, "attn_res.block_size is 0, must be at least 1");
    if (!(hp->situ_beta > 0.0f))
        return error_set(e, ERROR_FORMAT, "activation.situ_beta is %g, must be above 0",
                         (double)hp->situ_beta);
    int rc = kimi_configure(m, e);
    return rc == 0 ? arch_experts(m, e) : rc;
}

static void layer(struct forward *f, uint32_t il, const struct block *b)
{
    const struct layer *l = f->layer;
    struct block mixed = *b;
    mixed.in = residual_mix(f, il, il, b, &l->attn_res);
    residual_bank(f, il, b);
    layer_attention(f, il, &mixed);
    trace_rows(f, "prefix_sum_attn", il, b->x, f->hp->n_embd, b->n);
    mixed.in = residual_mix(f, il, il + 1, b, &l->ffn_res);
    layer_feed_forward(f, il, &mixed);
}

const struct arch arch_kimi_k3 = {
    .name = "kimi-k3",
    .hybrid = true,
    .keys = keys,
    .experts = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .configure = configure,
    .layer = layer,
};
