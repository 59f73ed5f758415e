/* The functions of the NEON table (kernels.h says what each does). Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_NEON_NEON_H
#define ENGINE_KERNELS_CPU_NEON_NEON_H

#include "engine/kernels/kernels.h"

#define QUANT(ident, id, elems, bytes, partner)                                                    \
    void neon_matmul_##ident(const struct matmul *m, size_t first, size_t last);
#include "engine/quant/quants.def"
#undef QUANT

void neon_act_f32(const float *x, void *out, size_t n);
void neon_act_q8(const float *x, void *out, size_t n);
void neon_act_q8k(const float *x, void *out, size_t n);
float neon_exp(float x);
void neon_rms_norm(const float *x, const float *w, float *out, size_t n, float eps);
void neon_swiglu(const float *gate, const float *up, float *out, size_t n);
void neon_situ(const float *gate, const float *up, float *out, size_t n, float beta,
               float linear_beta);
void neon_add(float *x, const float *y, size_t n);
void neon_to_f16(const float *x, uint16_t *out, size_t n);
void neon_attention_page(const struct attention_page *a);
void neon_sigmoid_gate(float *x, const float *gate, size_t n);
void neon_kda_decay(float *z, const struct kda_gate *gate, float *decay, size_t n);
void neon_kda_scan(const struct kda_scan *s);
void neon_merge(float *acc, float scale_acc, const float *page, float scale_page, size_t n);

/* All of a table but its name, its processors and its products of blocks: those with i8mm have the same. */
#define NEON_BUT_PRODUCTS                                                                          \
    .act_quantise = {[ACT_F32] = neon_act_f32, [ACT_Q8] = neon_act_q8, [ACT_Q8K] = neon_act_q8k},  \
    .rms_norm = neon_rms_norm, .swiglu = neon_swiglu, .situ = neon_situ, .add = neon_add,          \
    .to_f16 = neon_to_f16, .attention_page = neon_attention_page, .merge = neon_merge,             \
    .exp1 = neon_exp, .sigmoid_gate = neon_sigmoid_gate, .kda_decay = neon_kda_decay,              \
    .kda_scan = neon_kda_scan

#endif
