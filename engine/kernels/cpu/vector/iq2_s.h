/* The product of iq2_s, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ2_S_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ2_S_H

#include "engine/kernels/cpu/vector/panel_grid.h"

PANEL_GRID_MATMUL(iq2_s, GRID_SIGNED, 0, .eights = grid_iq2_s, .factor = 0.125f)

#endif
