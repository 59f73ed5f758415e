/* A model file written once more with something changed: forms that the model writer does not write. */
#ifndef TESTS_ENGINE_REWRITE_H
#define TESTS_ENGINE_REWRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/gguf/gguf.h"

struct rewrite {
    const char *omit_key;
    const char *u32_key; /* written with u32_value */
    uint32_t u32_value;
    const char *f32_key;
    float f32_value;
    const char *omit;  /* a tensor */
    const char *extra; /* F32, of 8 numbers */
    bool fuse_qkv;     /* attn_q, attn_k and attn_v of layers with convolutions become attn_qkv */
    bool fewer_dims;   /* convolutions without their last dimension, ssm_a as a column or a row */
};

void rewrite_model(const struct gguf *from, const char *to, const struct rewrite *r);

#endif
