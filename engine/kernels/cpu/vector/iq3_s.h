/* The product of iq3_s, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ3_S_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ3_S_H

#include "engine/kernels/cpu/vector/panel_grid.h"

PANEL_GRID_MATMUL(iq3_s, GRID_LOW, 15, .fours = grid_iq3_s, .factor = 1)

#endif
