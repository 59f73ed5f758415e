/* The product of iq1_s, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ1_S_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ1_S_H

#include "engine/kernels/cpu/vector/panel_grid.h"

PANEL_GRID_MATMUL(iq1_s, GRID_EIGHTHS, 9, .eights = grid_iq1, .factor = 0.125f)

#endif
