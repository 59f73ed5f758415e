#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

/* Six-bit scales, less 32; the offset of 4 needs them as minima too. */
PANEL_INLINE void open_scales(const struct panel_source *s, struct panel *p)
{
    const size_t at = offsetof(struct block_q3_k, scales);
    const __m256i two = _mm256_set1_epi8(0x30);
    __m256i low = panel_load4(s, at);
    __m256i high = panel_load4(s, at + 4);
    __m256i top = panel_load4(s, at + 8);
    __m256i sc[4];
    sc[0] =
        _mm256_or_si256(panel_low_nibbles(low), _mm256_and_si256(_mm256_slli_epi16(top, 4), two));
    sc[1] =
        _mm256_or_si256(panel_low_nibbles(high), _mm256_and_si256(_mm256_slli_epi16(top, 2), two));
    sc[2] = _mm256_or_si256(panel_high_nibbles(low), _mm256_and_si256(top, two));
    sc[3] =
        _mm256_or_si256(panel_high_nibbles(high), _mm256_and_si256(_mm256_srli_epi16(top, 2), two));
    for (int i = 0; i < 8; i++) {
        int k = 2 * i % 4;
        __m256i less = _mm256_set1_epi16(32);
        p->sc[2 * i] = _mm256_sub_epi16(panel_widen(sc[i / 2], k, k), less);
        p->sc[2 * i + 1] = _mm256_sub_epi16(panel_widen(sc[i / 2], k + 1, k + 1), less);
        p->mn[i] = _mm256_sub_epi16(panel_widen(sc[i / 2], k, k + 1), less);
    }
}

/* Bit `bit` of each byte as bit 2. */
PANEL_INLINE __m256i third_bits(__m256i bytes, int bit)
{
    __m256i moved = bit < 2 ? _mm256_slli_epi16(bytes, 2 - bit) : _mm256_srli_epi16(bytes, bit - 2);
    return _mm256_and_si256(moved, _mm256_set1_epi8(4));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    __m256 before;  /* d is the last member: read with the two bytes before it */
    panel_halves(panel_load4(s, offsetof(struct block_q3_k, d) - 2), &before, &p->d[0]);
    open_scales(s, p);
    for (int h = 0; h < 2; h++) { /* columns 16h.. of each 32 */
        __m256i mask[4];
        panel_load16(s, offsetof(struct block_q3_k, hmask) + 16 * (size_t)h, mask);
        for (int n = 0; n < 2; n++) {
            __m256i bytes[4];
            panel_load16(s, offsetof(struct block_q3_k, qs) + 32 * (size_t)n + 16 * (size_t)h,
                         bytes);
            for (int j = 0; j < 4; j++) {
                for (int c = 0; c < 4; c++) {
                    __m256i low =
                        _mm256_and_si256(_mm256_srli_epi16(bytes[c], 2 * j), _mm256_set1_epi8(3));
                    __m256i high = third_bits(mask[c], 4 * n + j);
                    p->q[32 * n + 8 * j + 4 * h + c] = _mm256_or_si256(low, high);
                }
            }
        }
    }
}

void avx2_matmul_q3_k(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .offset = 4,
                                   .block_bytes = sizeof(struct block_q3_k)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
