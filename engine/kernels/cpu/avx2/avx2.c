/* The table of AVX2 with FMA and F16C. */
#include "engine/kernels/cpu/avx2/avx2.h"

static int supported(const struct cpu *c)
{
    return c->avx2 && c->fma && c->f16c;
}

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .supported = supported,
    .act_quantise = {[ACT_F32] = avx2_act_f32, [ACT_Q8] = avx2_act_q8, [ACT_Q8K] = avx2_act_q8k},
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = avx2_matmul_##ident,
#include "engine/quant/quants.def"
#undef QUANT
        },
    .rms_norm = avx2_rms_norm,
    .swiglu = avx2_swiglu,
    .add = avx2_add,
    .to_f16 = avx2_to_f16,
    .attention_page = avx2_attention_page,
    .merge = avx2_merge,
    .exp1 = avx2_exp,
    .sigmoid_gate = avx2_sigmoid_gate,
    .kda_decay = avx2_kda_decay,
    .kda_scan = avx2_kda_scan,
};
