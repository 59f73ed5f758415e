#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_grid.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    __m256 next;    /* the word's other half belongs to what follows d */
    panel_halves(panel_load4(s, 0), &p->d[0], &next);
    p->d[0] = _mm256_mul_ps(p->d[0], _mm256_set1_ps(0.25f));
    panel_grid(s, grid_iq3_xxs_open, PANEL_GRID_SIGNED, p);
}

void avx2_matmul_iq3_xxs(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {
        .open = open_panel, .codes = PANEL_I8, .block_bytes = sizeof(struct block_iq3_xxs)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
