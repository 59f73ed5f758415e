#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks;   /* a super-block fills the panel */
    __m256i front[4]; /* d and dmin, scales */
    panel_load16(s, 0, front);
    panel_halves(front[0], &p->d[0], &p->m[0]);
    panel_scales_k4(front + 1, p);
    for (int i = 0; i < 8; i++) { /* bytes 16i.. of qs: columns 16 * (i % 2).. of two groups */
        __m256i bytes[4];
        panel_load16(s, offsetof(struct block_q4_k, qs) + 16 * (size_t)i, bytes);
        __m256i *q = p->q + 16 * (i / 2) + 4 * (i % 2);
        for (int c = 0; c < 4; c++) {
            q[c] = panel_low_nibbles(bytes[c]);
            q[8 + c] = panel_high_nibbles(bytes[c]);
        }
    }
}

void avx2_matmul_q4_k(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .has_min = true,
                                   .block_bytes = sizeof(struct block_q4_k)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
