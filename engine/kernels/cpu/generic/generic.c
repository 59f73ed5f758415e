/* The table of plain C: runs everywhere, and what the other tables are compared with. */
#include "engine/kernels/cpu/generic/generic.h"

static int supported(const struct cpu *c)
{
    (void)c;
    return 1;
}

const struct kernels kernels_generic = {
    .name = "generic",
    .supported = supported,
    .act_quantise =
        {[ACT_F32] = generic_act_f32, [ACT_Q8] = generic_act_q8, [ACT_Q8K] = generic_act_q8k},
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = generic_matmul_##ident,
#include "engine/quant/quants.def"
#undef QUANT
        },
    .rms_norm = generic_rms_norm,
    .swiglu = generic_swiglu,
    .situ = generic_situ,
    .add = generic_add,
    .to_f16 = generic_to_f16,
    .attention_page = generic_attention_page,
    .merge = generic_merge,
    .exp1 = generic_exp,
    .sigmoid_gate = generic_sigmoid_gate,
    .kda_decay = generic_kda_decay,
    .kda_scan = generic_kda_scan,
};
