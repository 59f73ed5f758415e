/*
 * Delta attention. A lane is a value of the state, so no sum crosses lanes.
 *
 * Order: a value's prediction and output are summed over the keys in ascending order by FMA. Values are
 * independent of each other: a block of columns stays in the first-level cache while all tokens pass.
 */
#include "base/compiler.h"
#include "engine/kernels/cpu/neon/exp.h"
#include "engine/kernels/cpu/neon/lanes.h"
#include "engine/kernels/cpu/neon/neon.h"

#define COLUMNS 8 /* vectors of values held at once */

/*
 * ln(1 + t), t >= 0: u = 1 + t = 2^n m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s) with
 * s = (m - 1) / (m + 1), |s| < 0.172; what the addition rounded away from t is put back by t's
 * derivative.
 */
static inline float32x4_t log1p_ps(float32x4_t t)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    float32x4_t u = vaddq_f32(one, t);
    float32x4_t lost = vdivq_f32(vsubq_f32(t, vsubq_f32(u, one)), u);
    /* 0x3f3504f3 is sqrt(1/2): n counts how often m's range fits below u */
    int32x4_t bits = vreinterpretq_s32_f32(u);
    int32x4_t n = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(0x3f3504f3)), 23);
    float32x4_t m = vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(n, 23)));
    float32x4_t s = vdivq_f32(vsubq_f32(m, one), vaddq_f32(m, one));
    float32x4_t z = vmulq_f32(s, s);
    float32x4_t p = vdupq_n_f32(2.0f / 9);
    p = vfmaq_f32(vdupq_n_f32(2.0f / 7), p, z);
    p = vfmaq_f32(vdupq_n_f32(2.0f / 5), p, z);
    p = vfmaq_f32(vdupq_n_f32(2.0f / 3), p, z);
    p = vfmaq_f32(vaddq_f32(s, s), vmulq_f32(p, z), s);
    p = vfmaq_f32(p, vcvtq_f32_s32(n), vdupq_n_f32(0.693147181f));
    return vaddq_f32(p, lost);
}

static inline float32x4_t softplus_ps(float32x4_t z)
{
    const float32x4_t top = vdupq_n_f32(20.0f);
    float32x4_t soft = log1p_ps(exp_ps(vminq_f32(z, top)));
    return vbslq_f32(vcgtq_f32(z, top), z, soft);
}

void neon_kda_decay(float *z, const struct kda_gate *gate, float *decay, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        const size_t lanes = MIN_OF(n - i, (size_t)4);
        float32x4_t x = vaddq_f32(lanes_load(z + i, lanes), lanes_load(gate->bias + i, lanes));
        float32x4_t g;
        if (gate->bounded) {
            float32x4_t share = exp_sigmoid_ps(vnegq_f32(vmulq_n_f32(x, gate->rate)));
            g = vmulq_n_f32(share, gate->bound);
        } else {
            g = vmulq_n_f32(softplus_ps(x), gate->rate);
        }
        lanes_store(z + i, g, lanes);
        lanes_store(decay + i, exp_ps(g), lanes);
    }
}

/* One token through n_vectors vectors of values from column j; the last has `lanes` lanes. */
static inline __attribute__((always_inline)) void advance(const struct kda_scan *s, size_t token,
                                                          size_t j, int n_vectors, size_t lanes)
{
    const size_t row = token * s->stride;
    const float *q = s->q + row, *k = s->k + row, *decay = s->decay + row;
    const float beta = s->beta[token * s->beta_stride];
    float32x4_t sum[COLUMNS], error[COLUMNS];
    for (int c = 0; c < n_vectors; c++)
        sum[c] = vdupq_n_f32(0);
    for (size_t i = 0; i < s->dim; i++) {
        const float *state = s->state + i * s->dim + j;
        const float32x4_t key = vdupq_n_f32(k[i]);
        for (int c = 0; c < n_vectors; c++)
            sum[c] =
                vfmaq_f32(sum[c], vmulq_n_f32(lanes_load(state + 4 * c, lanes), decay[i]), key);
    }
    for (int c = 0; c < n_vectors; c++) {
        float32x4_t value = lanes_load(s->v + row + j + 4 * (size_t)c, lanes);
        error[c] = vmulq_n_f32(vsubq_f32(value, sum[c]), beta);
        sum[c] = vdupq_n_f32(0);
    }
    for (size_t i = 0; i < s->dim; i++) {
        float *state = s->state + i * s->dim + j;
        const float32x4_t key = vdupq_n_f32(k[i]), query = vdupq_n_f32(q[i]);
        for (int c = 0; c < n_vectors; c++) {
            float32x4_t x = vmulq_n_f32(lanes_load(state + 4 * c, lanes), decay[i]);
            x = vfmaq_f32(x, key, error[c]);
            lanes_store(state + 4 * c, x, lanes);
            sum[c] = vfmaq_f32(sum[c], x, query);
        }
    }
    for (int c = 0; c < n_vectors; c++)
        lanes_store(s->out + row + j + 4 * (size_t)c, vmulq_n_f32(sum[c], s->scale), lanes);
}

void neon_kda_scan(const struct kda_scan *s)
{
    size_t j = 0;
    for (; j + 4 * COLUMNS <= s->dim; j += 4 * COLUMNS) {
        for (size_t token = 0; token < s->n_tokens; token++)
            advance(s, token, j, COLUMNS, 4);
    }
    for (; j + 4 <= s->dim; j += 4) {
        for (size_t token = 0; token < s->n_tokens; token++)
            advance(s, token, j, 1, 4);
    }
    for (size_t token = 0; j < s->dim && token < s->n_tokens; token++)
        advance(s, token, j, 1, s->dim - j);
}
