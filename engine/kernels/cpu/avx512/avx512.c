/*
 * The table of AVX-512 (F, BW, VL, DQ) with VNNI. What is no matrix product takes little of a step and is
 * AVX2's. Processors that have AVX-512 without VNNI take the AVX2 table: eight lanes of 16-bit sums are
 * what they would do here too.
 */
#include "engine/kernels/cpu/avx512/avx512.h"

#include "engine/kernels/cpu/avx2/avx2.h"

static int supported(const struct cpu *c)
{
    return c->avx2 && c->fma && c->f16c && c->avx512f && c->avx512bw && c->avx512vl &&
           c->avx512dq && c->avx512vnni;
}

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .supported = supported,
    .act_quantise = {[ACT_F32] = avx2_act_f32, [ACT_Q8] = avx2_act_q8, [ACT_Q8K] = avx2_act_q8k},
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = avx512_matmul_##ident,
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
};
