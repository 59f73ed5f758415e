/*
 * llama (Llama 1 to 3, SmolLM2, Mistral): NORM rope on weights that the converter permuted; optional
 * biases and frequency factors.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

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
    TENSOR_ROW(layer, out_bias, "attn_output.bias", DIM_EMBD, DIM_ONE,
               TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROW(layer, gate_bias, "ffn_gate.bias", DIM_FF, DIM_ONE, TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROW(layer, up_bias, "ffn_up.bias", DIM_FF, DIM_ONE, TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROW(layer, down_bias, "ffn_down.bias", DIM_EMBD, DIM_ONE, TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROWS_END,
};

static void layer(struct forward *f, uint32_t il, const struct block *b)
{
    block_attention(f, il, b);
    block_ffn(f, il, b);
}

static int configure(struct model *m, struct error *e)
{
    const struct hparams *hp = &m->hp;
    arch_parts_all(m, PART_GQA | PART_DENSE);
    if (hp->rope.n_rot != hp->head_dim)
        return error_set(e, ERROR_FORMAT, "rope.dimension_count is %u, the head size is %u",
                         hp->rope.n_rot, hp->head_dim);
    return 0;
}

const struct arch arch_llama = {
    .name = "llama",
    .rope_neox = false,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .configure = configure,
    .layer = layer,
};
