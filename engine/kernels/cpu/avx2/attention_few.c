#include "engine/kernels/cpu/avx2/attention.h"

#define FEW 4

/* Scores of keys j .. j + 15 with n queries. */
ATTENTION_INLINE void score_strip(const struct attention_page *a, size_t n, size_t n_keys, size_t j,
                                  float score[FEW][KV_PAGE])
{
    const uint16_t *key[STRIP_KEYS];
    __m256 sum[2 * FEW];
    find_strip(a, n_keys, j, 0, key);
    for (size_t i = 0; i < 2 * n; i++)
        sum[i] = _mm256_setzero_ps();
    for (size_t c = 0; c < a->k_dim; c += 8) {
        __m256i halves[8];
        transpose_strip(key, c, 8, halves);
        for (size_t d = 0; d < 8; d++) {
            __m256 low = low_floats(halves[d]);
            __m256 high = high_floats(halves[d]);
            for (size_t r = 0; r < n; r++) {
                __m256 q = _mm256_broadcast_ss(a->queries[r].q + c + d);
                sum[2 * r] = _mm256_fmadd_ps(q, low, sum[2 * r]);
                sum[2 * r + 1] = _mm256_fmadd_ps(q, high, sum[2 * r + 1]);
            }
        }
    }
    for (size_t r = 0; r < n; r++) {
        _mm256_store_ps(score[r] + j, sum[2 * r]);
        _mm256_store_ps(score[r] + j + 8, sum[2 * r + 1]);
    }
}

/* Dimensions [c, c + 8 n_vectors) of the values. */
ATTENTION_INLINE void add_columns(const struct attention_page *a, size_t n, size_t n_vectors,
                                  size_t n_keys, size_t c, float weight[FEW][KV_PAGE])
{
    __m256 sum[12];
    const char *v = (const char *)a->v + c * sizeof(uint16_t);
    for (size_t i = 0; i < n * n_vectors; i++)
        sum[i] = _mm256_setzero_ps();
    for (size_t j = 0; j < n_keys; j++, v += a->v_stride_bytes) {
        __m256 w[FEW];
        for (size_t r = 0; r < n; r++)
            w[r] = _mm256_broadcast_ss(weight[r] + j);
        for (size_t i = 0; i < n_vectors; i++) {
            __m256 x = _mm256_cvtph_ps(load_halves((const uint16_t *)v + 8 * i, 8));
            for (size_t r = 0; r < n; r++)
                sum[r * n_vectors + i] = _mm256_fmadd_ps(w[r], x, sum[r * n_vectors + i]);
        }
    }
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < n_vectors; i++)
            _mm256_storeu_ps(a->queries[r].acc + c + 8 * i, sum[r * n_vectors + i]);
    }
}

ATTENTION_INLINE void attend_n(const struct attention_page *a, size_t n, size_t n_vectors)
{
    _Alignas(64) float score[FEW][KV_PAGE];
    const size_t n_keys = a->queries[0].n_keys;
    for (size_t j = 0; j < n_keys; j += STRIP_KEYS)
        score_strip(a, n, n_keys, j, score);
    for (size_t r = 0; r < n; r++)
        a->queries[r].sum = avx2_weigh(score[r], n_keys, a->scale, &a->queries[r].max);
    size_t c = 0;
    for (; c + 8 * n_vectors <= a->v_dim; c += 8 * n_vectors)
        add_columns(a, n, n_vectors, n_keys, c, score);
    for (; c < a->v_dim; c += 16)
        add_columns(a, n, 2, n_keys, c, score);
}

bool avx2_attend_few(const struct attention_page *a)
{
    if (a->n_queries > FEW || a->k_dim % 8 != 0 || a->v_dim % 16 != 0)
        return false;
    for (size_t r = 1; r < a->n_queries; r++) {
        if (a->queries[r].n_keys != a->queries[0].n_keys)
            return false;
    }
    switch (a->n_queries) {
    case 1:
        attend_n(a, 1, 8);
        break;
    case 2:
        attend_n(a, 2, 4);
        break;
    case 3:
        attend_n(a, 3, 4);
        break;
    default:
        attend_n(a, FEW, 2);
        break;
    }
    return true;
}
