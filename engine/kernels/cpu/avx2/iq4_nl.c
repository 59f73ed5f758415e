#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"
#include "engine/quant/codes.h"

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    static const int8_t value[16] = {CODES_IQ4};
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * sizeof(struct block_iq4_nl);
        __m256 next; /* the word's other half belongs to what follows d */
        panel_halves(panel_load4(s, at), &p->d[b], &next);
        __m256i bytes[4];
        panel_load16(s, at + offsetof(struct block_iq4_nl, qs), bytes);
        for (int c = 0; c < 4; c++) {
            p->q[8 * b + c] = panel_look_up(value, panel_low_nibbles(bytes[c]));
            p->q[8 * b + 4 + c] = panel_look_up(value, panel_high_nibbles(bytes[c]));
        }
    }
}

void avx2_matmul_iq4_nl(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {
        .open = open_panel, .codes = PANEL_I8, .block_bytes = sizeof(struct block_iq4_nl)};
    panel_matmul(f, ACT_Q8, m, first, last);
}
