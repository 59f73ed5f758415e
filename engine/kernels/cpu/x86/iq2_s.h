/* The product of iq2_s, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_X86_IQ2_S_H
#define ENGINE_KERNELS_CPU_X86_IQ2_S_H

#include "engine/kernels/cpu/x86/panel_grid.h"

VEC_INLINE void open_iq2_s(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    panel_put_d(o, row, 0);
    o->d = vecf_mul(o->d, vecf_set(0.125f));
    panel_grid(row, grid_iq2_s_open, PANEL_GRID_SIGNED, o);
}

PANEL_MATMUL(iq2_s, ACT_Q8K, .codes = CODES_I8)

#endif
