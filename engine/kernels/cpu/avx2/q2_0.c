#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"

/* The four codes of byte i of each lane's word as its four bytes. */
PANEL_INLINE __m256i spread_byte(__m256i words, int i)
{
    __m256i x = _mm256_and_si256(_mm256_srli_epi32(words, 8 * i), _mm256_set1_epi32(255));
    __m256i low = _mm256_or_si256(x, _mm256_slli_epi32(x, 6));
    __m256i both = _mm256_or_si256(low, _mm256_slli_epi32(low, 12));
    return _mm256_and_si256(both, _mm256_set1_epi8(3));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    for (size_t b = 0; b < n_blocks; b++) { /* half a block */
        const size_t at = b / 2 * sizeof(struct block_q2_0);
        __m256 next; /* the word's other half belongs to what follows d */
        panel_halves(panel_load4(s, at), &p->d[b], &next);
        for (int h = 0; h < 2; h++) {
            const size_t word = 8 * (b % 2) + 4 * (size_t)h;
            __m256i bytes = panel_load4(s, at + offsetof(struct block_q2_0, qs) + word);
            for (int c = 0; c < 4; c++)
                p->q[8 * b + 4 * (size_t)h + (size_t)c] = spread_byte(bytes, c);
        }
    }
}

void avx2_matmul_q2_0(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .offset = 1,
                                   .n_acts = 2,
                                   .block_bytes = sizeof(struct block_q2_0)};
    panel_matmul(f, ACT_Q8, m, first, last);
}
