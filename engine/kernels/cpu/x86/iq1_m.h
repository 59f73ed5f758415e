/* The product of iq1_m, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_X86_IQ1_M_H
#define ENGINE_KERNELS_CPU_X86_IQ1_M_H

#include "engine/kernels/cpu/x86/panel_grid.h"

VEC_INLINE void open_iq1_m(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    float d[VEC_LANES];
    for (int lane = 0; lane < VEC_LANES; lane++)
        d[lane] = _cvtsh_ss(block_scale_iq1_m((const struct block_iq1_m *)row[lane]));
    o->d = vecf_mul(VEC_OP(loadu_ps)(d), vecf_set(0.125f));
    panel_grid(row, grid_iq1_m_open, PANEL_GRID_EIGHTHS, o);
}

PANEL_MATMUL(iq1_m, ACT_Q8K, .codes = CODES_U5, .offset = 9)

#endif
