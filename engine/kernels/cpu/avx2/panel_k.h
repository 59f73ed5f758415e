/* What opening super-blocks needs besides panel.h: bytes of scales into 16-bit halves of lanes. */
#ifndef ENGINE_KERNELS_CPU_AVX2_PANEL_K_H
#define ENGINE_KERNELS_CPU_AVX2_PANEL_K_H

#include "engine/kernels/cpu/avx2/panel.h"

/* Bytes i and k (0..3) of each lane's word, widened to its low and high half. */
PANEL_INLINE __m256i panel_widen(__m256i words, int i, int k)
{
    const __m256i lane = _mm256_setr_epi32(0, 0x00040004, 0x00080008, 0x000c000c, 0, 0x00040004,
                                           0x00080008, 0x000c000c);
    __m256i select = _mm256_add_epi16(lane, _mm256_set1_epi32(i | k << 16));
    return _mm256_shuffle_epi8(words, _mm256_or_si256(select, _mm256_set1_epi16((short)0x8000)));
}

/* The same of signed bytes. */
PANEL_INLINE __m256i panel_widen_signed(__m256i words, int i, int k)
{
    return _mm256_srai_epi16(_mm256_slli_epi16(panel_widen(words, i, k), 8), 8);
}

/* Six-bit scales and minima of q4_k and q5_k: word h of each has those of groups 4h .. 4h + 3. */
PANEL_INLINE void panel_scales_k4(const __m256i s[3], struct panel *p)
{
    const __m256i six = _mm256_set1_epi8(0x3f);
    const __m256i top = _mm256_set1_epi8(0x30);
    __m256i sc[2];
    __m256i mn[2];
    sc[0] = _mm256_and_si256(s[0], six);
    mn[0] = _mm256_and_si256(s[1], six);
    sc[1] =
        _mm256_or_si256(panel_low_nibbles(s[2]), _mm256_and_si256(_mm256_srli_epi16(s[0], 2), top));
    mn[1] = _mm256_or_si256(panel_high_nibbles(s[2]),
                            _mm256_and_si256(_mm256_srli_epi16(s[1], 2), top));
    for (int g = 0; g < 8; g++) {
        p->sc[2 * g] = panel_widen(sc[g / 4], g % 4, g % 4);
        p->sc[2 * g + 1] = p->sc[2 * g];
        p->mn[g] = panel_widen(mn[g / 4], g % 4, g % 4);
    }
}

/* All scales one, and minima where the offset needs them. */
PANEL_INLINE void panel_scales_one(struct panel *p)
{
    for (int g = 0; g < 16; g++)
        p->sc[g] = _mm256_set1_epi16(1);
    for (int i = 0; i < 8; i++)
        p->mn[i] = _mm256_set1_epi16(1);
}

/* The two-bit codes of q2_k and tq2_0, 64 bytes from there. */
PANEL_INLINE void panel_twos(const struct panel_source *s, size_t at, struct panel *p)
{
    for (int i = 0; i < 4; i++) { /* bytes 16i..: half i / 2, columns 16 * (i % 2).. of 32 */
        __m256i bytes[4];
        panel_load16(s, at + 16 * (size_t)i, bytes);
        __m256i *q = p->q + 32 * (i / 2) + 4 * (i % 2);
        for (int j = 0; j < 4; j++) {
            for (int c = 0; c < 4; c++)
                q[8 * j + c] =
                    _mm256_and_si256(_mm256_srli_epi16(bytes[c], 2 * j), _mm256_set1_epi8(3));
        }
    }
}

#endif
