#include <math.h>

#include "base/numeric.h"
#include "engine/model/blocks/blocks.h"

/* The pair whose wavelength makes `turns` rotations over the original context (YaRN). */
static double correction(const struct rope_params *p, double turns)
{
    const double pi = 3.14159265358979323846;
    return p->n_rot * numeric_log(p->n_ctx_orig / (turns * 2.0 * pi)) /
           (2.0 * numeric_log(p->freq_base));
}

void rope_prepare(struct forward *f)
{
    const struct rope_params *p = &f->hp->rope;
    for (uint32_t i = 0; i < p->n_rot / 2; i++)
        f->rope_mix[i] = 0.0f;
    if (p->ext_factor == 0.0f)
        return;
    float low = MAX_OF(0.0f, (float)floor(correction(p, p->beta_fast)));
    float high = MIN_OF((float)(p->n_rot - 1), (float)ceil(correction(p, p->beta_slow)));
    for (uint32_t i = 0; i < p->n_rot / 2; i++) {
        float ramp = ((float)i - low) / MAX_OF(0.001f, high - low);
        f->rope_mix[i] = (1.0f - MIN_OF(1.0f, MAX_OF(0.0f, ramp))) * p->ext_factor;
    }
}

void rope_angles(const struct forward *f, uint32_t position, float *ret_cos, float *ret_sin)
{
    const struct rope_params *p = &f->hp->rope;
    const float *factors = f->m->rope_freqs.data;
    float scale = (float)numeric_pow(p->freq_base, -2.0f / (float)p->n_rot);
    float magnitude = p->attn_factor;
    if (p->ext_factor != 0.0f)
        magnitude *= 1.0f + 0.1f * (float)numeric_log(1.0f / p->freq_scale);
    float theta = (float)position; /* advanced in f32 as the reference does */
    for (uint32_t i = 0; i < p->n_rot / 2; i++) {
        float plain = factors ? theta / factors[i] : theta;
        float mix = f->rope_mix[i];
        float angle = p->freq_scale * plain * (1.0f - mix) + plain * mix;
        double s, c;
        numeric_sincos(angle, &s, &c);
        ret_cos[i] = (float)c * magnitude;
        ret_sin[i] = (float)s * magnitude;
        theta *= scale;
    }
}

void rope_apply(const struct rope_params *p, const float *cos_row, const float *sin_row, float *x,
                uint32_t n_heads, uint32_t head_dim)
{
    uint32_t half = p->n_rot / 2;
    uint32_t step = p->neox ? 1 : 2, partner = p->neox ? half : 1;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        for (uint32_t i = 0; i < half; i++) {
            float a = x[i * step], b = x[i * step + partner];
            x[i * step] = a * cos_row[i] - b * sin_row[i];
            x[i * step + partner] = a * sin_row[i] + b * cos_row[i];
        }
    }
}
