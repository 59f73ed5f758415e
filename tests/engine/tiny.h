/*
 * A tiny llama model written by the project's own writer, with one thing wrong on request.
 */
#ifndef TESTS_ENGINE_TINY_H
#define TESTS_ENGINE_TINY_H

#include <stdint.h>

struct tiny {
    const char *arch;     /* NULL: "llama" */
    const char *skip_key; /* without "llama." */
    const char *u32_key;  /* written with u32_value instead of its own value */
    uint32_t u32_value;
    const char *skip_tensor;
    const char *extra_tensor; /* F32, n_embd wide */
    const char *wide_tensor;  /* gets 32 more columns */
    const char *f16_tensor;   /* written as F16 */
};

/* Writes path; embd 64, 2 layers, 2 heads, 1 kv head, ff 96, vocabulary 50 without a tokenizer. */
void tiny_write(const char *path, const struct tiny *t);

#endif
