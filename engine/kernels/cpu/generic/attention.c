/* One page of attention in plain C: keys in ascending order, dimensions in ascending order. */
#include "engine/kernels/cpu/generic/generic.h"

static float dot_f16(const float *q, const uint16_t *k, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i] * quant_f16_to_f32(k[i]);
    return sum;
}

void generic_attention_page(const struct attention_page *a, float *ret_max, float *ret_sum,
                            float *acc)
{
    float score[KV_PAGE];
    float max = 0;
    for (size_t j = 0; j < a->n_keys; j++) {
        const char *k = (const char *)a->k + j * a->k_stride_bytes;
        score[j] = a->scale * dot_f16(a->q, (const uint16_t *)k, a->k_dim);
        max = j == 0 || score[j] > max ? score[j] : max;
    }
    for (size_t i = 0; i < a->v_dim; i++)
        acc[i] = 0;
    float sum = 0;
    for (size_t j = 0; j < a->n_keys; j++) {
        const char *v = (const char *)a->v + j * a->v_stride_bytes;
        float weight = generic_exp(score[j] - max);
        sum += weight;
        for (size_t i = 0; i < a->v_dim; i++)
            acc[i] += weight * quant_f16_to_f32(((const uint16_t *)v)[i]);
    }
    *ret_max = max;
    *ret_sum = sum;
}
