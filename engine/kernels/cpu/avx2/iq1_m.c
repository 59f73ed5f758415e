#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_grid.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    float d[PANEL_LANES];
    for (int lane = 0; lane < PANEL_LANES; lane++)
        d[lane] = _cvtsh_ss(block_scale_iq1_m((const struct block_iq1_m *)s->row[lane]));
    p->d[0] = _mm256_mul_ps(_mm256_loadu_ps(d), _mm256_set1_ps(0.125f));
    panel_grid(s, grid_iq1_m_open, PANEL_GRID_EIGHTHS, p);
}

void avx2_matmul_iq1_m(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U5,
                                   .offset = 9,
                                   .block_bytes = sizeof(struct block_iq1_m)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
