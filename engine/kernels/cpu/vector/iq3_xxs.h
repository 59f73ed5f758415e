/* The product of iq3_xxs, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ3_XXS_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ3_XXS_H

#include "engine/kernels/cpu/vector/panel_grid.h"

PANEL_GRID_MATMUL(iq3_xxs, GRID_SIGNED, 0, .fours = grid_iq3_xxs, .factor = 0.25f)

#endif
