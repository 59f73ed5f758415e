/* The product of iq4_xs, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ4_XS_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ4_XS_H

#include "engine/kernels/cpu/vector/panel_k.h"
#include "engine/quant/codes.h"

/* Six-bit scales, less 32; an offset would need them as minima too. */
VEC_INLINE void iq4_xs_scales(vec front, vec low, struct opened *o)
{
    for (int g = 0; g < 8; g++) {
        vec nibble = vec_srl32(low, 4 * g) & vec_set32(15);
        vec top = vec_srl32(front, 16 + 2 * g) & vec_set32(3);
        vec sc = nibble | vec_sll32(top, 4);
        o->sc[2 * g] = dot_scale_less(dot_scale_of(sc), 32);
        o->sc[2 * g + 1] = o->sc[2 * g];
        o->mn[g] = vec_sub16(sc | vec_sll32(sc, 16), vec_set16(32));
    }
}

VEC_INLINE void open_iq4_xs(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    static const int8_t value[16] = {CODES_IQ4};
    vecf next; /* the word's other half is the scales' high bits */
    vec front = vec_gather4(row, 0);
    vec_halves(front, &o->d, &next);
    iq4_xs_scales(front, vec_gather4(row, offsetof(struct block_iq4_xs, scales_l)), o);
    for (int g = 0; g < 8; g++) {
        vec bytes[4];
        vec low[4];
        vec high[4];
        vec_load16(row, offsetof(struct block_iq4_xs, qs) + 16 * (size_t)g, bytes);
        for (int c = 0; c < 4; c++) {
            low[c] = panel_look_up(value, panel_low_nibbles(bytes[c]));
            high[c] = panel_look_up(value, panel_high_nibbles(bytes[c]));
        }
        panel_put(o, 2 * g, low);
        panel_put(o, 2 * g + 1, high);
    }
}

PANEL_MATMUL(iq4_xs, ACT_Q8K, .codes = CODES_I8, .wide = true)

#endif
