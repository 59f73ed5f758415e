#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"
#include "engine/quant/codes.h"

/* The scales of byte i of each lane's word (block_scale_nvfp4). */
PANEL_INLINE __m256 open_scales(__m256i words, int i)
{
    const __m256i most = _mm256_set1_epi32(0x7f);
    __m256i d = _mm256_and_si256(_mm256_srli_epi32(words, 8 * i), most);
    __m256i number = _mm256_andnot_si256(_mm256_cmpeq_epi32(d, most), _mm256_slli_epi32(d, 20));
    return _mm256_mul_ps(_mm256_castsi256_ps(number), _mm256_set1_ps(0x1p119f));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    static const int8_t value[16] = {CODES_FP4};
    for (size_t b = 0; b < n_blocks; b++) { /* half a block */
        const size_t at = b / 2 * sizeof(struct block_nvfp4);
        const int part = (int)(b % 2);
        __m256i scales = panel_load4(s, at);
        p->d[b] = open_scales(scales, 2 * part);
        p->m[b] = open_scales(scales, 2 * part + 1);
        __m256i bytes[4];
        panel_load16(s, at + offsetof(struct block_nvfp4, qs) + 16 * (size_t)part, bytes);
        __m256i *q = p->q + 8 * b;
        for (int c = 0; c < 4; c++) { /* word c: columns 4 * (c % 2).. and 8 further of 16 */
            q[4 * (c / 2) + c % 2] = panel_look_up(value, panel_low_nibbles(bytes[c]));
            q[4 * (c / 2) + c % 2 + 2] = panel_look_up(value, panel_high_nibbles(bytes[c]));
        }
    }
}

void avx2_matmul_nvfp4(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_I8,
                                   .halves = true,
                                   .block_bytes = sizeof(struct block_nvfp4),
                                   .n_acts = 2};
    panel_matmul(f, ACT_Q8, m, first, last);
}
