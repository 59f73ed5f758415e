/* The functions of the generic table (kernels.h says what each does). Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_GENERIC_GENERIC_H
#define ENGINE_KERNELS_CPU_GENERIC_GENERIC_H

#include "engine/kernels/kernels.h"

#define QUANT(ident, id, elems, bytes, partner)                                                    \
    void generic_matmul_##ident(const struct matmul *m, size_t first, size_t last);
#include "engine/quant/quants.def"
#undef QUANT

void generic_act_f32(const float *x, void *out, size_t n);
void generic_act_q8(const float *x, void *out, size_t n);
void generic_act_q8k(const float *x, void *out, size_t n);
float generic_exp(float x);
void generic_rms_norm(const float *x, const float *w, float *out, size_t n, float eps);
void generic_swiglu(const float *gate, const float *up, float *out, size_t n);
void generic_situ(const float *gate, const float *up, float *out, size_t n, float beta,
                  float linear_beta);
void generic_add(float *x, const float *y, size_t n);
void generic_to_f16(const float *x, uint16_t *out, size_t n);
void generic_attention_page(const struct attention_page *a);
void generic_sigmoid_gate(float *x, const float *gate, size_t n);
void generic_kda_decay(float *z, const struct kda_gate *gate, float *decay, size_t n);
void generic_kda_scan(const struct kda_scan *s);
void generic_merge(float *acc, float scale_acc, const float *page, float scale_page, size_t n);

#endif
