#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    __m256i scales[4];
    panel_halves(panel_load4(s, offsetof(struct block_q2_k, d)), &p->d[0], &p->m[0]);
    panel_load16(s, offsetof(struct block_q2_k, scales), scales);
    for (int i = 0; i < 8; i++) {
        int k = 2 * i % 4; /* groups 2i and 2i + 1 are bytes k and k + 1 of word i / 2 */
        __m256i sc = panel_low_nibbles(scales[i / 2]);
        p->sc[2 * i] = panel_widen(sc, k, k);
        p->sc[2 * i + 1] = panel_widen(sc, k + 1, k + 1);
        p->mn[i] = panel_widen(panel_high_nibbles(scales[i / 2]), k, k + 1);
    }
    panel_twos(s, offsetof(struct block_q2_k, qs), p);
}

void avx2_matmul_q2_k(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .has_min = true,
                                   .block_bytes = sizeof(struct block_q2_k)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
