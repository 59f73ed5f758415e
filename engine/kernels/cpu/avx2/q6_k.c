#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

/* Signed scales; the offset of 32 needs them as minima too. */
PANEL_INLINE void open_scales(const struct panel_source *s, struct panel *p)
{
    __m256i sc[4];
    panel_load16(s, offsetof(struct block_q6_k, scales), sc);
    for (int i = 0; i < 8; i++) {
        int k = 2 * i % 4;
        p->sc[2 * i] = panel_widen_signed(sc[i / 2], k, k);
        p->sc[2 * i + 1] = panel_widen_signed(sc[i / 2], k + 1, k + 1);
        p->mn[i] = panel_widen_signed(sc[i / 2], k, k + 1);
    }
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    const __m256i two = _mm256_set1_epi8(0x30);
    __m256 before; /* d is the last member: read with the two bytes before it */
    panel_halves(panel_load4(s, offsetof(struct block_q6_k, d) - 2), &before, &p->d[0]);
    open_scales(s, p);
    for (int i = 0; i < 4; i++) { /* half n of the block, columns 16h.. of each 32 */
        const size_t n = (size_t)i / 2;
        const size_t h = (size_t)i % 2;
        __m256i a[4];
        __m256i b[4];
        __m256i top[4];
        panel_load16(s, offsetof(struct block_q6_k, ql) + 64 * n + 16 * h, a);
        panel_load16(s, offsetof(struct block_q6_k, ql) + 64 * n + 32 + 16 * h, b);
        panel_load16(s, offsetof(struct block_q6_k, qh) + 32 * n + 16 * h, top);
        __m256i *q = p->q + 32 * n + 4 * h;
        for (int c = 0; c < 4; c++) {
            __m256i top0 = _mm256_and_si256(_mm256_slli_epi16(top[c], 4), two);
            __m256i top1 = _mm256_and_si256(_mm256_slli_epi16(top[c], 2), two);
            __m256i top2 = _mm256_and_si256(top[c], two);
            __m256i top3 = _mm256_and_si256(_mm256_srli_epi16(top[c], 2), two);
            q[c] = _mm256_or_si256(panel_low_nibbles(a[c]), top0);
            q[8 + c] = _mm256_or_si256(panel_low_nibbles(b[c]), top1);
            q[16 + c] = _mm256_or_si256(panel_high_nibbles(a[c]), top2);
            q[24 + c] = _mm256_or_si256(panel_high_nibbles(b[c]), top3);
        }
    }
}

void avx2_matmul_q6_k(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U6,
                                   .offset = 32,
                                   .block_bytes = sizeof(struct block_q6_k)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
