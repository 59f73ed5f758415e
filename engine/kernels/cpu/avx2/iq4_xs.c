#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"
#include "engine/quant/codes.h"

/* Six-bit scales, less 32. */
PANEL_INLINE void open_scales(__m256i front, __m256i low, struct panel *p)
{
    for (int g = 0; g < 8; g++) {
        __m256i nibble = _mm256_and_si256(_mm256_srli_epi32(low, 4 * g), _mm256_set1_epi32(15));
        __m256i top = _mm256_and_si256(_mm256_srli_epi32(front, 16 + 2 * g), _mm256_set1_epi32(3));
        __m256i sc = _mm256_or_si256(nibble, _mm256_slli_epi32(top, 4));
        sc = _mm256_or_si256(sc, _mm256_slli_epi32(sc, 16));
        p->sc[2 * g] = _mm256_sub_epi16(sc, _mm256_set1_epi16(32));
        p->sc[2 * g + 1] = p->sc[2 * g];
    }
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    static const int8_t value[16] = {CODES_IQ4};
    (void)n_blocks; /* a super-block fills the panel */
    __m256 next;    /* the word's other half is the scales' high bits */
    __m256i front = panel_load4(s, 0);
    panel_halves(front, &p->d[0], &next);
    open_scales(front, panel_load4(s, offsetof(struct block_iq4_xs, scales_l)), p);
    for (int g = 0; g < 8; g++) {
        __m256i bytes[4];
        panel_load16(s, offsetof(struct block_iq4_xs, qs) + 16 * (size_t)g, bytes);
        for (int c = 0; c < 4; c++) {
            p->q[8 * g + c] = panel_look_up(value, panel_low_nibbles(bytes[c]));
            p->q[8 * g + 4 + c] = panel_look_up(value, panel_high_nibbles(bytes[c]));
        }
    }
}

void avx2_matmul_iq4_xs(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {
        .open = open_panel, .codes = PANEL_I8, .block_bytes = sizeof(struct block_iq4_xs)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
