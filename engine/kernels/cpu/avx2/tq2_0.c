#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    __m256 before;  /* d is the last member: read with the two bytes before it */
    panel_halves(panel_load4(s, offsetof(struct block_tq2_0, d) - 2), &before, &p->d[0]);
    panel_scales_one(p);
    panel_twos(s, offsetof(struct block_tq2_0, qs), p);
}

void avx2_matmul_tq2_0(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .offset = 1,
                                   .block_bytes = sizeof(struct block_tq2_0)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
