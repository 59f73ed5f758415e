/* The functions of the AVX2 table (kernels.h says what each does). Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_AVX2_AVX2_H
#define ENGINE_KERNELS_CPU_AVX2_AVX2_H

#include "engine/kernels/kernels.h"

#define QUANT(ident, id, elems, bytes, partner)                                                    \
    void avx2_matmul_##ident(const struct matmul *m, size_t first, size_t last);
#include "engine/quant/quants.def"
#undef QUANT

void avx2_act_f32(const float *x, void *out, size_t n);
void avx2_act_q8(const float *x, void *out, size_t n);
void avx2_act_q8k(const float *x, void *out, size_t n);
float avx2_exp(float x);
void avx2_rms_norm(const float *x, const float *w, float *out, size_t n, float eps);
void avx2_swiglu(const float *gate, const float *up, float *out, size_t n);
void avx2_situ(const float *gate, const float *up, float *out, size_t n, float beta,
               float linear_beta);
void avx2_add(float *x, const float *y, size_t n);
void avx2_to_f16(const float *x, uint16_t *out, size_t n);
void avx2_attention_page(const struct attention_page *a);
void avx2_sigmoid_gate(float *x, const float *gate, size_t n);
void avx2_kda_decay(float *z, const struct kda_gate *gate, float *decay, size_t n);
void avx2_kda_scan(const struct kda_scan *s);
void avx2_merge(float *acc, float scale_acc, const float *page, float scale_page, size_t n);

/* All of a table but its name, its processors and its matrix products: AVX-512 has the same. */
#define AVX2_BUT_PRODUCTS                                                                          \
    .act_quantise = {[ACT_F32] = avx2_act_f32, [ACT_Q8] = avx2_act_q8, [ACT_Q8K] = avx2_act_q8k},  \
    .rms_norm = avx2_rms_norm, .swiglu = avx2_swiglu, .situ = avx2_situ, .add = avx2_add,          \
    .to_f16 = avx2_to_f16, .attention_page = avx2_attention_page, .merge = avx2_merge,             \
    .exp1 = avx2_exp, .sigmoid_gate = avx2_sigmoid_gate, .kda_decay = avx2_kda_decay,              \
    .kda_scan = avx2_kda_scan

#endif
