/* The product of iq3_xxs, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_X86_IQ3_XXS_H
#define ENGINE_KERNELS_CPU_X86_IQ3_XXS_H

#include "engine/kernels/cpu/x86/panel_grid.h"

VEC_INLINE void open_iq3_xxs(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    panel_put_d(o, row, 0);
    o->d = vecf_mul(o->d, vecf_set(0.25f));
    panel_grid(row, grid_iq3_xxs_open, PANEL_GRID_SIGNED, o);
}

PANEL_MATMUL(iq3_xxs, ACT_Q8K, .codes = CODES_I8)

#endif
