/* The product of nvfp4, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_NVFP4_H
#define ENGINE_KERNELS_CPU_VECTOR_NVFP4_H

#include "engine/kernels/cpu/vector/panel.h"
#include "engine/quant/codes.h"

/* The scales of byte i of each lane's word (block_scale_nvfp4): 127 is no number. */
VEC_INLINE vecf nvfp4_scales(vec words, int i)
{
    vec d = vec_srl32(words, 8 * i) & vec_set32(127);
    vec is_127 = vec_srl32(vec_add32(d, vec_set32(1)), 7);
    vec number = vec_sll32(d, 20) & vec_sub32(is_127, vec_set32(1));
    return vecf_mul((vecf)number, vecf_set(0x1p119f));
}

VEC_INLINE void open_nvfp4(const uint8_t *const *row, size_t b, struct opened *o)
{
    static const int8_t value[16] = {CODES_FP4};
    const size_t at = b / 2 * sizeof(struct block_nvfp4);
    const size_t part = b % 2; /* b is half a block */
    vec scales = vec_gather4(row, at);
    vec bytes[4];
    o->d = nvfp4_scales(scales, 2 * (int)part);
    o->m = nvfp4_scales(scales, 2 * (int)part + 1);
    vec_load16(row, at + offsetof(struct block_nvfp4, qs) + 16 * part, bytes);
    for (int h = 0; h < 2; h++) { /* word 2h + c: columns 4c.. and 8 further of half h */
        vec q[4];
        for (int c = 0; c < 2; c++) {
            q[c] = panel_look_up(value, panel_low_nibbles(bytes[2 * h + c]));
            q[c + 2] = panel_look_up(value, panel_high_nibbles(bytes[2 * h + c]));
        }
        panel_put_half(o, h, q);
    }
}

PANEL_MATMUL(nvfp4, ACT_Q8, .codes = CODES_I8, .halves = true, .n_acts = 2)

#endif
