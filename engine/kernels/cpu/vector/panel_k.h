/* What opening super-blocks needs besides panel.h: scales into the forms that products take. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_PANEL_K_H
#define ENGINE_KERNELS_CPU_VECTOR_PANEL_K_H

#include "engine/kernels/cpu/vector/panel.h"

/* Sixteen bytes of scales in each lane's four words, signed or not; and the same as minima. */
VEC_INLINE void panel_scales_16(const vec sc[4], bool is_signed, struct opened *o)
{
    for (int i = 0; i < 8; i++) {
        const vec words = sc[i / 2];
        const int k = 2 * i % 4; /* groups 2i and 2i + 1 are bytes k and k + 1 of word i / 2 */
        vec pair = vec_widen(words, k, k + 1);
        o->sc[2 * i] = is_signed ? dot_scale_signed(words, k) : dot_scale(words, k);
        o->sc[2 * i + 1] = is_signed ? dot_scale_signed(words, k + 1) : dot_scale(words, k + 1);
        o->mn[i] = is_signed ? vec_sra16(vec_sll16(pair, 8), 8) : pair;
    }
}

/* Six-bit scales and minima of q4_k and q5_k: word h of each has those of groups 4h .. 4h + 3. */
VEC_INLINE void panel_unpack_k4(const vec s[3], vec sc[2], vec mn[2])
{
    const vec six = vec_set8(0x3f);
    const vec top = vec_set8(0x30);
    sc[0] = s[0] & six;
    mn[0] = s[1] & six;
    sc[1] = panel_low_nibbles(s[2]) | (vec_srl16(s[0], 2) & top);
    mn[1] = panel_high_nibbles(s[2]) | (vec_srl16(s[1], 2) & top);
}

VEC_INLINE void panel_scales_k4(const vec s[3], struct opened *o)
{
    vec sc[2];
    vec mn[2];
    panel_unpack_k4(s, sc, mn);
    for (int g = 0; g < 8; g++) {
        o->sc[2 * g] = dot_scale(sc[g / 4], g % 4);
        o->sc[2 * g + 1] = o->sc[2 * g];
        o->mn[g] = vec_widen(mn[g / 4], g % 4, g % 4);
    }
}

/* All scales one, and minima where the offset needs them. */
VEC_INLINE void panel_scales_one(struct opened *o)
{
    for (int g = 0; g < 16; g++)
        o->sc[g] = dot_scale_of(vec_set32(1));
    for (int i = 0; i < 8; i++)
        o->mn[i] = vec_set16(1);
}

/* d as a block's last member: read with the two bytes before it. */
VEC_INLINE void panel_put_last_d(struct opened *o, const uint8_t *const *row, size_t at)
{
    vecf before;
    vec_halves(vec_gather4(row, at - 2), &before, &o->d);
}

/* Bits [first, first + n) of each byte, at `to` of it. */
VEC_INLINE vec panel_move_bits(vec bytes, int first, int n, int to)
{
    vec moved = first < to ? vec_sll16(bytes, to - first) : vec_srl16(bytes, first - to);
    return moved & vec_set8(((1 << n) - 1) << to);
}

/* The two-bit codes of q2_k and tq2_0, 64 bytes from there. */
VEC_INLINE void panel_put_twos(struct opened *o, const uint8_t *const *row, size_t at)
{
    for (int i = 0; i < 4; i++) { /* bytes 16i..: half i / 2, columns 16 * (i % 2).. of 32 */
        vec bytes[4];
        vec_load16(row, at + 16 * (size_t)i, bytes);
        for (int j = 0; j < 4; j++) {
            vec q[4];
            for (int c = 0; c < 4; c++)
                q[c] = panel_move_bits(bytes[c], 2 * j, 2, 0);
            panel_put(o, 8 * (i / 2) + 2 * j + i % 2, q);
        }
    }
}

#endif
