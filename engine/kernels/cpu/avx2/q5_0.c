#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"

/* Bits [first, first + 4) of each lane's word as bit 4 of its four bytes. */
PANEL_INLINE __m256i fifth_bits(__m256i words, int first)
{
    const __m256i select = _mm256_set1_epi32(0x08040201);
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0,
                                          0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    __m256i spread = _mm256_shuffle_epi8(_mm256_srli_epi32(words, first), byte);
    __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, select), select);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(16));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * sizeof(struct block_q5_0);
        __m256 next; /* the word's other half belongs to what follows d */
        panel_halves(panel_load4(s, at), &p->d[b], &next);
        __m256i bytes[4];
        panel_load16(s, at + offsetof(struct block_q5_0, qs), bytes);
        __m256i bits = panel_load4(s, at + offsetof(struct block_q5_0, qh));
        for (int c = 0; c < 4; c++) {
            __m256i low = fifth_bits(bits, 4 * c);
            __m256i high = fifth_bits(bits, 16 + 4 * c);
            p->q[8 * b + c] = _mm256_or_si256(panel_low_nibbles(bytes[c]), low);
            p->q[8 * b + 4 + c] = _mm256_or_si256(panel_high_nibbles(bytes[c]), high);
        }
    }
}

void avx2_matmul_q5_0(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U5,
                                   .offset = 16,
                                   .block_bytes = sizeof(struct block_q5_0)};
    panel_matmul(f, ACT_Q8, m, first, last);
}
