#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    for (size_t b = 0; b < n_blocks; b++) { /* a quarter of a block */
        const size_t at = b / 4 * sizeof(struct block_q1_0);
        __m256 next; /* the word's other half belongs to what follows d */
        panel_halves(panel_load4(s, at), &p->d[b], &next);
        __m256i bits = panel_load4(s, at + offsetof(struct block_q1_0, qs) + 4 * (b % 4));
        for (int c = 0; c < 8; c++)
            p->q[8 * b + (size_t)c] = panel_bits(bits, 4 * c, 2);
    }
}

void avx2_matmul_q1_0(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .offset = 1,
                                   .n_acts = 4,
                                   .block_bytes = sizeof(struct block_q1_0)};
    panel_matmul(f, ACT_Q8, m, first, last);
}
