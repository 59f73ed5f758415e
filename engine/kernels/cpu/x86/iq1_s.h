/* The product of iq1_s, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_X86_IQ1_S_H
#define ENGINE_KERNELS_CPU_X86_IQ1_S_H

#include "engine/kernels/cpu/x86/panel_grid.h"

VEC_INLINE void open_iq1_s(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    panel_put_d(o, row, 0);
    o->d = vecf_mul(o->d, vecf_set(0.125f));
    panel_grid(row, grid_iq1_s_open, PANEL_GRID_EIGHTHS, o);
}

PANEL_MATMUL(iq1_s, ACT_Q8K, .codes = CODES_U5, .offset = 9)

#endif
