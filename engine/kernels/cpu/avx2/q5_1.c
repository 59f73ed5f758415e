#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * sizeof(struct block_q5_1);
        panel_halves(panel_load4(s, at), &p->d[b], &p->m[b]);
        __m256i bytes[4];
        panel_load16(s, at + offsetof(struct block_q5_1, qs), bytes);
        __m256i bits = panel_load4(s, at + offsetof(struct block_q5_1, qh));
        for (int c = 0; c < 4; c++) {
            __m256i low = panel_bits(bits, 4 * c, 16);
            __m256i high = panel_bits(bits, 16 + 4 * c, 16);
            p->q[8 * b + c] = _mm256_or_si256(panel_low_nibbles(bytes[c]), low);
            p->q[8 * b + 4 + c] = _mm256_or_si256(panel_high_nibbles(bytes[c]), high);
        }
    }
}

void avx2_matmul_q5_1(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U5,
                                   .has_min = true,
                                   .block_bytes = sizeof(struct block_q5_1)};
    panel_matmul(f, ACT_Q8, m, first, last);
}
