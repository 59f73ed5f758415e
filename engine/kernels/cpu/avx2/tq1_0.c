#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/panel_k.h"

/* The first digit of each byte's fraction, which is then moved on to the next. */
PANEL_INLINE __m256i next_digit(__m256i *fraction)
{
    __m256i t = *fraction;
    __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(t, _mm256_set1_epi8(86)), t);
    __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(t, _mm256_set1_epi8((char)171)), t);
    *fraction = _mm256_add_epi8(t, _mm256_add_epi8(t, t));
    return _mm256_abs_epi8(_mm256_add_epi8(one, two));
}

PANEL_INLINE void open_panel(const struct panel_source *s, size_t n_blocks, struct panel *p)
{
    (void)n_blocks; /* a super-block fills the panel */
    __m256 before;  /* d is the last member: read with the two bytes before it */
    panel_halves(panel_load4(s, offsetof(struct block_tq1_0, d) - 2), &before, &p->d[0]);
    panel_scales_one(p);
    for (int i = 0; i < 3; i++) { /* bytes 16i.. of qs */
        __m256i bytes[4];
        panel_load16(s, 16 * (size_t)i, bytes);
        __m256i *q = i < 2 ? p->q + 4 * i : p->q + 40;
        const int stride = i < 2 ? 8 : 4;
        for (int n = 0; n < 5; n++) {
            for (int c = 0; c < 4; c++)
                q[stride * n + c] = next_digit(&bytes[c]);
        }
    }
    __m256i last = panel_load4(s, offsetof(struct block_tq1_0, qh));
    for (int n = 0; n < 4; n++)
        p->q[60 + n] = next_digit(&last);
}

void avx2_matmul_tq1_0(const struct matmul *m, size_t first, size_t last)
{
    const struct panel_format f = {.open = open_panel,
                                   .codes = PANEL_U4,
                                   .offset = 1,
                                   .block_bytes = sizeof(struct block_tq1_0)};
    panel_matmul(f, ACT_Q8K, m, first, last);
}
