#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel.h"
#include "engine/quant/codes.h"

/* Twice an E2M1 number, plus 12. */
static const int8_t fp4_above_12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* 2^(e - 128) of the lowest byte of each lane (block_scale_mxfp4). */
PANEL_INLINE __m256 open_scales(__m256i words)
{
    __m256i e = _mm256_and_si256(words, _mm256_set1_epi32(255));
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i is_subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, is_subnormal));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * sizeof(struct block_mxfp4);
        p->d[b] = open_scales(panel_load4(s, at));
        __m256i bytes[4];
        panel_load16(s, at + offsetof(struct block_mxfp4, qs), bytes);
        for (int c = 0; c < 4; c++) {
            p->q[8 * b + c] = panel_look_up(fp4_above_12, panel_low_nibbles(bytes[c]));
            p->q[8 * b + 4 + c] = panel_look_up(fp4_above_12, panel_high_nibbles(bytes[c]));
        }
    }
}

void avx2_matmul_mxfp4(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U5,
                                   .offset = 12,
                                   .block_bytes = sizeof(struct block_mxfp4)};
    panel_matmul(f, ACT_Q8, m, first, last);
}
