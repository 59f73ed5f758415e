/*
 * llama (Llama 1 to 3, SmolLM2, Mistral, Mixtral): NORM rope on weights that the converter permuted; optional
 * biases and frequency factors.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct key_row keys[] = {
    KEY_ROWS_MOE,
    KEY_ROWS_END,
};

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROW(model, rope_freqs, "rope_freqs.weight", DIM_ROT_HALF, DIM_ONE,
               TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROWS_ATTENTION,
    TENSOR_ROWS_QKV_BIAS(TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROWS_FFN,
    TENSOR_ROWS_MOE,
    TENSOR_ROW(layer, out_bias, "attn_output.bias", DIM_EMBD, DIM_ONE,
               TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_PART(PART_DENSE, gate_bias, "ffn_gate.bias", DIM_FF, DIM_ONE,
                TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_PART(PART_DENSE, up_bias, "ffn_up.bias", DIM_FF, DIM_ONE, TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_PART(PART_DENSE, down_bias, "ffn_down.bias", DIM_EMBD, DIM_ONE,
                TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROWS_END,
};

/* Mixtral: softmax over all, weights renormalised. */
static int configure_experts(struct model *m, struct error *e)
{
    static const char old[] = "blk.0.ffn_gate.0.weight";
    struct hparams *hp = &m->hp;
    if (gguf_tensor_find(m->gguf, old))
        return error_set(e, ERROR_UNSUPPORTED,
                         "tensor '%s': a tensor for each expert is a form no longer in use; the "
                         "file has to be converted anew",
                         old);
    hp->expert_gating = GATING_SOFTMAX;
    hp->expert_norm = true;
    if (hp->expert_ff == 0)
        hp->expert_ff = hp->n_ff;
    return arch_experts(m, e);
}

static int configure(struct model *m, struct error *e)
{
    const struct hparams *hp = &m->hp;
    if (hp->rope.n_rot != hp->head_dim)
        return error_set(e, ERROR_FORMAT, "rope.dimension_count is %u, the head size is %u",
                         hp->rope.n_rot, hp->head_dim);
    arch_parts_all(m, hp->n_experts > 0 ? PART_GQA : PART_GQA | PART_DENSE);
    return hp->n_experts > 0 ? configure_experts(m, e) : 0;
}

const struct arch arch_llama = {
    .name = "llama",
    .rope_neox = false,
    .keys = keys,
    .experts = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .configure = configure,
    .layer = layer_plain,
};
