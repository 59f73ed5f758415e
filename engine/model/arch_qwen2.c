/*
 * qwen2 (Qwen2, Qwen2.5): NEOX rope, biases on q, k and v. Engine-spec 2.2 and 3.1.
 */
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

static const struct tensor_row tensors[] = {
    TENSOR_ROWS_MODEL,
    TENSOR_ROW(model, output_bias, "output.bias", DIM_VOCAB, DIM_ONE, TENSOR_OPTIONAL | TENSOR_F32),
    TENSOR_ROWS_END,
};

static const struct tensor_row layer_tensors[] = {
    TENSOR_ROWS_ATTENTION,
    TENSOR_ROWS_QKV_BIAS(TENSOR_F32),
    TENSOR_ROWS_FFN,
    TENSOR_ROWS_END,
};

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .rope_neox = true,
    .tensors = tensors,
    .layer_tensors = layer_tensors,
    .layer = layer_plain,
};
