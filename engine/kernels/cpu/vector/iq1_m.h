/* The product of iq1_m, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ1_M_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ1_M_H

#include "engine/kernels/cpu/vector/panel_grid.h"

VEC_INLINE uint16_t iq1_m_scale_bits(const void *block)
{
    return block_scale_iq1_m(block);
}

PANEL_GRID_MATMUL(iq1_m, GRID_EIGHTHS, 9, .eights = grid_iq1, .factor = 0.125f,
                  .scale_bits = iq1_m_scale_bits)

#endif
