/* The product of iq2_xxs, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ2_XXS_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ2_XXS_H

#include "engine/kernels/cpu/vector/panel_grid.h"

PANEL_GRID_MATMUL(iq2_xxs, GRID_SIGNED, 0, .eights = grid_iq2_xxs, .factor = 0.125f)

#endif
