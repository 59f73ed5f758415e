/* The product of iq3_s, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_X86_IQ3_S_H
#define ENGINE_KERNELS_CPU_X86_IQ3_S_H

#include "engine/kernels/cpu/x86/panel_grid.h"

VEC_INLINE void open_iq3_s(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    panel_put_d(o, row, 0);
    panel_grid(row, grid_iq3_s_open, PANEL_GRID_LOW, o);
}

PANEL_MATMUL(iq3_s, ACT_Q8K, .codes = CODES_U5, .offset = 15)

#endif
