#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tools/model/spec.h"

enum { NAME_BYTES = 64, CHUNK_BYTES = 1 << 20 };

static uint32_t field_u32(const struct spec *s, size_t offset)
{
    uint32_t v;
    memcpy(&v, (const char *)s + offset, sizeof(v));
    return v;
}

static int visit_row(const struct spec *s, const struct tensor_row *row, const char *name,
                     tensor_visit visit, void *context, struct error *e)
{
    if (row->when == IF_UNTIED && s->tied)
        return 0;
    uint64_t ne[4] = {1, 1, 1, 1};
    uint32_t n_dims = 0;
    while (n_dims < 4 && row->dims[n_dims] != DIM_NONE) {
        ne[n_dims] = field_u32(s, row->dims[n_dims] - 1);
        n_dims++;
    }
    return visit(context, row, name, ne, n_dims, e);
}

int model_each_tensor(const struct model_arch *a, const struct spec *s, tensor_visit visit,
                      void *context, struct error *e)
{
    int rc = 0;
    for (const struct tensor_row *row = a->globals; rc == 0 && row->name; row++)
        rc = visit_row(s, row, row->name, visit, context, e);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        for (const struct tensor_row *row = a->layer; rc == 0 && row->name; row++) {
            char name[NAME_BYTES];
            snprintf(name, sizeof(name), "blk.%" PRIu32 ".%s", i, row->name);
            rc = visit_row(s, row, name, visit, context, e);
        }
    }
    return rc;
}

const struct quant *model_tensor_quant(const struct tensor_row *row, const struct quant *wanted,
                                       uint64_t columns)
{
    /* llama.cpp's own fallbacks for rows that are no multiple of 256. */
    static const char *const fallback[][2] = {
        {"Q2_K", "Q4_0"},      {"Q3_K", "Q4_0"},      {"Q4_K", "Q5_0"},    {"Q5_K", "Q5_1"},
        {"Q6_K", "Q8_0"},      {"TQ1_0", "Q4_0"},     {"TQ2_0", "Q4_0"},   {"IQ4_XS", "IQ4_NL"},
        {"IQ3_S", "IQ4_NL"},   {"IQ3_XXS", "IQ4_NL"}, {"IQ2_S", "IQ4_NL"}, {"IQ2_XS", "IQ4_NL"},
        {"IQ2_XXS", "IQ4_NL"}, {"IQ1_M", "IQ4_NL"},   {"IQ1_S", "IQ4_NL"},
    };
    if (row->fill == FILL_NORM || row->fill == FILL_BIAS)
        return quant_by_name("F32");
    const struct quant *q = wanted;
    for (size_t i = 0; i < ARRAY_LEN(fallback); i++) {
        if (columns % q->block_elems != 0 && strcmp(q->name, fallback[i][0]) == 0)
            q = quant_by_name(fallback[i][1]);
    }
    return columns % q->block_elems == 0 ? q : quant_by_name("F16");
}

struct put_context {
    struct gguf_writer *w;
    const struct quant *wanted;
};

static int put_tensor(void *context, const struct tensor_row *row, const char *name,
                      const uint64_t ne[4], uint32_t n_dims, struct error *e)
{
    struct put_context *c = context;
    (void)e;
    gguf_put_tensor(c->w, name, model_tensor_quant(row, c->wanted, ne[0]), n_dims, ne);
    return 0;
}

int model_put_tensors(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                      const struct quant *wanted, struct error *e)
{
    struct put_context c = {.w = w, .wanted = wanted};
    return model_each_tensor(a, s, put_tensor, &c, e);
}

void model_put_keys(struct gguf_writer *w, const struct model_arch *a, const struct spec *s)
{
    gguf_put_str(w, "general.architecture", str_of(a->name));
    gguf_put_str(w, "general.type", str_of("model"));
    gguf_put_str(w, "general.name", str_of("random weights"));
    gguf_put_u32(w, "general.quantization_version", 2);
    for (const struct key_row *row = a->keys; row->name; row++) {
        char key[NAME_BYTES];
        snprintf(key, sizeof(key), "%s.%s", a->name, row->name);
        float f;
        memcpy(&f, (const char *)s + row->field, sizeof(f));
        if (row->is_float)
            gguf_put_f32(w, key, f);
        else
            gguf_put_u32(w, key, field_u32(s, row->field));
    }
}

struct weights_context {
    struct gguf_writer *w;
    const struct quant *wanted;
    uint64_t seed;
    bool tied;
    uint8_t *chunk; /* [CHUNK_BYTES] */
};

/* Each tensor has a seed of its own, so that its weights do not depend on the other tensors. */
static uint64_t tensor_seed(uint64_t seed, const char *name)
{
    for (const char *c = name; *c; c++)
        seed = rng_u64(seed, (uint8_t)*c);
    return seed;
}

static int write_vector(struct weights_context *c, float center, float spread, uint64_t seed,
                        uint64_t n, struct error *e)
{
    float *out = (float *)(void *)c->chunk;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n;) {
        size_t k = 0;
        for (; k < CHUNK_BYTES / sizeof(float) && i < n; k++, i++)
            out[k] = center + spread * rng_normal(seed, i);
        rc = gguf_writer_data(c->w, out, k * sizeof(float), e);
    }
    return rc;
}

static int write_blocks(struct weights_context *c, const struct quant *q, float rms, uint64_t seed,
                        uint64_t n_blocks, struct error *e)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n_blocks;) {
        size_t k = 0;
        for (; k + q->block_bytes <= CHUNK_BYTES && i < n_blocks; k += q->block_bytes, i++)
            q->synthesise(c->chunk + k, seed, i, rms);
        rc = gguf_writer_data(c->w, c->chunk, k, e);
    }
    return rc;
}

static int write_tensor(void *context, const struct tensor_row *row, const char *name,
                        const uint64_t ne[4], uint32_t n_dims, struct error *e)
{
    struct weights_context *c = context;
    (void)n_dims;
    uint64_t n = ne[0] * ne[1] * ne[2] * ne[3];
    uint64_t seed = tensor_seed(c->seed, name);
    float gain = c->tied && row->gain_tied != 0.0f ? row->gain_tied : row->gain;
    if (row->fill == FILL_NORM)
        return write_vector(c, gain, 0.15f * gain, seed, n, e);
    if (row->fill == FILL_BIAS)
        return write_vector(c, 0.0f, gain, seed, n, e);
    const struct quant *q = model_tensor_quant(row, c->wanted, ne[0]);
    float rms = row->fill == FILL_EMBEDDING ? gain : gain / sqrtf((float)ne[0]);
    return write_blocks(c, q, rms, seed, n / q->block_elems, e);
}

int model_write_weights(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                        const struct quant *wanted, uint64_t seed, struct error *e)
{
    struct weights_context c = {.w = w, .wanted = wanted, .seed = seed, .tied = s->tied};
    c.chunk = mem_alloc(CHUNK_BYTES);
    if (!c.chunk)
        return error_set(e, ERROR_NOMEM, "no memory for %d bytes of weights", CHUNK_BYTES);
    int rc = model_each_tensor(a, s, write_tensor, &c, e);
    mem_free(c.chunk);
    return rc;
}
