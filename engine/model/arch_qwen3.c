/*
 * qwen3, dense: NEOX rope, RMS norm of every q and k head before rope, head_dim given by the file.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROWS_ATTENTION,
    TENSOR_ROWS_FFN,
    TENSOR_ROW(layer, q_norm, "attn_q_norm.weight", DIM_HEAD, DIM_ONE, TENSOR_F32),
    TENSOR_ROW(layer, k_norm, "attn_k_norm.weight", DIM_HEAD, DIM_ONE, TENSOR_F32),
    TENSOR_ROWS_END,
};

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .rope_neox = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .layer = layer_plain,
};
