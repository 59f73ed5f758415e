/* Blocks of the grid formats into codes_q8k. Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_GENERIC_GRID_H
#define ENGINE_KERNELS_CPU_GENERIC_GRID_H

#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/quant/grid.h"

/* All but d. */
static inline void open_grid(grid_open_fn *open_group, grid_codes_fn *codes, const void *block,
                             struct codes_q8k *out)
{
    out->dmin = 0;
    for (int i = 0; i < 8; i++) {
        struct grid_group g;
        open_group(block, i, &g);
        codes(&g, out->q + 32 * i);
        for (int h = 0; h < 2; h++) {
            out->sc[2 * i + h] = g.sc[h];
            out->mn[2 * i + h] = 0;
        }
    }
}

#endif
