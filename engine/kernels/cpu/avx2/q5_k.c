#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

/* Bit `bit` of each byte as bit 4. */
PANEL_INLINE __m256i fifth_bits(__m256i bytes, int bit)
{
    __m256i moved = bit < 4 ? _mm256_slli_epi16(bytes, 4 - bit) : _mm256_srli_epi16(bytes, bit - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks;   /* a super-block fills the panel */
    __m256i front[4]; /* d and dmin, scales */
    panel_load16(s, 0, front);
    panel_halves(front[0], &p->d[0], &p->m[0]);
    panel_scales_k4(front + 1, p);
    for (int h = 0; h < 2; h++) { /* columns 16h.. of each group */
        __m256i fifth[4];
        panel_load16(s, offsetof(struct block_q5_k, qh) + 16 * (size_t)h, fifth);
        for (int i = 0; i < 4; i++) {
            __m256i bytes[4];
            panel_load16(s, offsetof(struct block_q5_k, qs) + 32 * (size_t)i + 16 * (size_t)h,
                         bytes);
            __m256i *q = p->q + 16 * i + 4 * h;
            for (int c = 0; c < 4; c++) {
                q[c] = _mm256_or_si256(panel_low_nibbles(bytes[c]), fifth_bits(fifth[c], 2 * i));
                q[8 + c] =
                    _mm256_or_si256(panel_high_nibbles(bytes[c]), fifth_bits(fifth[c], 2 * i + 1));
            }
        }
    }
}

void avx2_matmul_q5_k(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U5,
                                   .has_min = true,
                                   .block_bytes = sizeof(struct block_q5_k)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
