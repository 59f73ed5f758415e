/* Dot products with NEON alone. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_NEON_DOT_H
#define ENGINE_KERNELS_CPU_NEON_DOT_H

#include "engine/kernels/cpu/neon/words.h"
#include "engine/kernels/cpu/vector/dot_tile.h"

#endif
