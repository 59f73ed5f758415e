#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tools/model/spec.h"
#include "tools/model/topics.h"

enum { NAME_BYTES = 64, CHUNK_BYTES = 1 << 20 };

static bool is_named(const char *wanted, const char *name)
{
    return wanted && strcmp(wanted, name) == 0;
}

static int visit_row(const struct spec *s, const struct tensor_row *row, const char *name,
                     tensor_visit visit, void *context, struct error *e)
{
    if (is_named(s->defects.omit, name))
        return 0;
    uint64_t ne[4] = {1, 1, 1, 1};
    uint32_t n_dims = 0;
    while (n_dims < 4 && row->dims[n_dims] != DIM_NONE) {
        ne[n_dims] = spec_u32(s, row->dims[n_dims] - 1);
        n_dims++;
    }
    if (is_named(s->defects.misshape, name))
        ne[n_dims > 0 ? n_dims - 1 : 0]++;
    return visit(context, row, name, ne, n_dims, e);
}

static int visit_extra(const struct spec *s, tensor_visit visit, void *context, struct error *e)
{
    static const struct tensor_row row = {.fill = FILL_NORM, .gain = 1.0f};
    const uint64_t ne[4] = {32, 1, 1, 1};
    return s->defects.extra ? visit(context, &row, s->defects.extra, ne, 1, e) : 0;
}

int model_each_tensor(const struct model_arch *a, const struct spec *s, tensor_visit visit,
                      void *context, struct error *e)
{
    int rc = 0;
    for (const struct tensor_row *row = a->globals; rc == 0 && row->name; row++) {
        if ((row->when & ~spec_facts(s)) == 0)
            rc = visit_row(s, row, row->name, visit, context, e);
    }
    for (uint32_t i = 0; i < s->n_layers; i++) {
        for (const struct tensor_row *row = a->layer; rc == 0 && row->name; row++) {
            char name[NAME_BYTES];
            snprintf(name, sizeof(name), "blk.%" PRIu32 ".%s", i, row->name);
            if ((row->when & ~spec_layer_facts(s, i)) == 0)
                rc = visit_row(s, row, name, visit, context, e);
        }
    }
    return rc == 0 ? visit_extra(s, visit, context, e) : rc;
}

const struct quant *model_tensor_quant(const struct tensor_row *row, const struct formats *wanted,
                                       uint64_t columns)
{
    /* llama.cpp's own fallbacks for rows that are no multiple of 256. */
    static const char *const fallback[][2] = {
        {"Q2_K", "Q4_0"},      {"Q3_K", "Q4_0"},      {"Q4_K", "Q5_0"},    {"Q5_K", "Q5_1"},
        {"Q6_K", "Q8_0"},      {"TQ1_0", "Q4_0"},     {"TQ2_0", "Q4_0"},   {"IQ4_XS", "IQ4_NL"},
        {"IQ3_S", "IQ4_NL"},   {"IQ3_XXS", "IQ4_NL"}, {"IQ2_S", "IQ4_NL"}, {"IQ2_XS", "IQ4_NL"},
        {"IQ2_XXS", "IQ4_NL"}, {"IQ1_M", "IQ4_NL"},   {"IQ1_S", "IQ4_NL"},
    };
    if (row->fill != FILL_MATRIX && row->fill != FILL_EMBEDDING && row->fill != FILL_EXPERTS)
        return quant_by_name("F32");
    const struct quant *q = row->fill == FILL_EXPERTS     ? wanted->experts
                            : row->fill == FILL_EMBEDDING ? wanted->embedding
                                                          : wanted->trunk;
    for (size_t i = 0; i < ARRAY_LEN(fallback); i++) {
        if (columns % q->block_elems != 0 && strcmp(q->name, fallback[i][0]) == 0)
            q = quant_by_name(fallback[i][1]);
    }
    return columns % q->block_elems == 0 ? q : quant_by_name("F16");
}

struct put_context {
    struct gguf_writer *w;
    const struct formats *wanted;
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
                      const struct formats *wanted, struct error *e)
{
    struct put_context c = {.w = w, .wanted = wanted};
    return model_each_tensor(a, s, put_tensor, &c, e);
}

static void put_kv_heads(struct gguf_writer *w, const char *key, const struct spec *s)
{
    int32_t heads[SPEC_LAYERS_MAX];
    for (uint32_t i = 0; i < s->n_layers; i++)
        heads[i] = s->mla[i];
    gguf_put_i32s(w, key, heads, s->n_layers);
}

/* Whether `key` is the one that gets a value it should not have. */
static bool put_wrong(struct gguf_writer *w, const struct spec *s, const char *key)
{
    const char *wrong = s->defects.set_key;
    const size_t len = strlen(key);
    if (!wrong || strncmp(wrong, key, len) != 0 || wrong[len] != '=')
        return false;
    gguf_put_u32(w, key, (uint32_t)strtoul(wrong + len + 1, NULL, 10));
    return true;
}

static void put_key(struct gguf_writer *w, const struct spec *s, const struct key_row *row,
                    const char *key)
{
    float number;
    bool flag;
    memcpy(&number, (const char *)s + row->field, sizeof(number));
    memcpy(&flag, (const char *)s + row->field, sizeof(flag));
    switch (row->kind) {
    case KEY_U32:
        gguf_put_u32(w, key, spec_u32(s, row->field));
        break;
    case KEY_F32:
        gguf_put_f32(w, key, number);
        break;
    case KEY_BOOL:
        gguf_put_bool(w, key, flag);
        break;
    case KEY_TEXT:
        gguf_put_str(w, key, str_of(row->text));
        break;
    case KEY_KV_HEADS:
        put_kv_heads(w, key, s);
        break;
    }
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
        if ((row->when & ~spec_facts(s)) == 0 && !is_named(s->defects.omit_key, key) &&
            !put_wrong(w, s, key))
            put_key(w, s, row, key);
    }
}

struct weights_context {
    struct gguf_writer *w;
    const struct formats *wanted;
    const struct spec *spec;
    uint64_t seed;
    bool sparse;
    size_t poison;  /* bytes of the tensor that are yet to be spoilt */
    uint8_t *chunk; /* [CHUNK_BYTES] */
};

/* Each tensor has a seed of its own, so that its weights do not depend on the other tensors. */
static uint64_t tensor_seed(uint64_t seed, const char *name)
{
    for (const char *c = name; *c; c++)
        seed = rng_u64(seed, (uint8_t)*c);
    return seed;
}

/* How the numbers of a vector are drawn. */
struct draw {
    enum fill fill;
    float center, spread; /* uniform: from, to */
    uint64_t seed;
    uint64_t n_taps;
};

static float draw(const struct draw *d, uint64_t i)
{
    if (d->fill == FILL_UNIFORM)
        return d->center + (d->spread - d->center) * (float)rng_unit(d->seed, i);
    const bool newest = d->fill == FILL_CONV && i % d->n_taps == d->n_taps - 1;
    return d->center + (newest ? 0.9f : 0.0f) + d->spread * rng_normal(d->seed, i);
}

static struct draw draw_of(const struct tensor_row *row, const uint64_t ne[4], float gain,
                           uint64_t seed)
{
    struct draw d = {.fill = row->fill, .spread = gain, .seed = seed, .n_taps = ne[0]};
    if (row->fill == FILL_NORM) {
        d.center = gain;
        d.spread = 0.15f * gain;
    } else if (row->fill == FILL_UNIFORM) {
        d.center = row->gain;
        d.spread = row->gain_tied;
    } else if (row->fill == FILL_FLOATS) {
        d.spread = gain / sqrtf((float)ne[0]);
    }
    return d;
}

/* The next n bytes of the chunk; the first `poison` ones of the tensor are spoilt. */
static int put_chunk(struct weights_context *c, size_t n, struct error *e)
{
    memset(c->chunk, 0xFF, c->poison);
    c->poison = 0;
    return gguf_writer_data(c->w, c->chunk, n, e);
}

static int write_vector(struct weights_context *c, const struct draw *d, uint64_t n,
                        struct error *e)
{
    float *out = (float *)(void *)c->chunk;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n;) {
        size_t k = 0;
        for (; k < CHUNK_BYTES / sizeof(float) && i < n; k++, i++)
            out[k] = draw(d, i);
        rc = put_chunk(c, k * sizeof(float), e);
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
        rc = put_chunk(c, k, e);
    }
    return rc;
}

/* Embeddings of tokens that are kin, as F16: nothing here encodes other formats. */
static int write_topics(struct weights_context *c, const uint64_t ne[4], struct error *e)
{
    const uint32_t n_embd = (uint32_t)ne[0];
    struct topics t;
    float *row = mem_array(n_embd, sizeof(*row));
    int rc = row ? topics_open(&t, c->spec->n_topics, (uint32_t)ne[1], c->seed, e)
                 : error_set(e, ERROR_NOMEM, "no memory for an embedding");
    for (uint32_t id = 0; rc == 0 && id < ne[1]; id++) {
        uint16_t *out = (uint16_t *)(void *)c->chunk;
        rc = topics_embed(&t, id, n_embd, row, e);
        for (uint32_t i = 0; rc == 0 && i < n_embd; i++)
            out[i] = quant_f32_to_f16(TOPICS_RMS * row[i]);
        if (rc == 0)
            rc = put_chunk(c, n_embd * sizeof(*out), e);
    }
    if (row)
        topics_close(&t);
    mem_free(row);
    return rc;
}

static int write_tensor(void *context, const struct tensor_row *row, const char *name,
                        const uint64_t ne[4], uint32_t n_dims, struct error *e)
{
    struct weights_context *c = context;
    (void)n_dims;
    const uint64_t n = ne[0] * ne[1] * ne[2] * ne[3];
    const uint64_t seed = tensor_seed(c->seed, name);
    const struct quant *q = model_tensor_quant(row, c->wanted, ne[0]);
    c->poison = is_named(c->spec->defects.poison, name) ? q->block_bytes : 0;
    if (c->sparse)
        return gguf_writer_hole(c->w, n / q->block_elems * q->block_bytes, e);
    const float gain = c->spec->tied && row->gain_tied != 0.0f ? row->gain_tied : row->gain;
    if (row->fill != FILL_MATRIX && row->fill != FILL_EXPERTS && row->fill != FILL_EMBEDDING) {
        const struct draw d = draw_of(row, ne, gain, seed);
        return write_vector(c, &d, n, e);
    }
    if (row->fill == FILL_EMBEDDING && c->spec->n_topics > 0)
        return write_topics(c, ne, e);
    const uint32_t fan_in =
        row->fan_in != DIM_NONE ? spec_u32(c->spec, row->fan_in - 1) : (uint32_t)ne[0];
    const float rms = row->fill == FILL_EMBEDDING ? gain : gain / sqrtf((float)fan_in);
    return write_blocks(c, q, rms, seed, n / q->block_elems, e);
}

int model_write_weights(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                        const struct formats *wanted, uint64_t seed, bool sparse, struct error *e)
{
    struct weights_context c = {
        .w = w, .wanted = wanted, .seed = seed, .spec = s, .sparse = sparse};
    c.chunk = mem_alloc(CHUNK_BYTES);
    if (!c.chunk)
        return error_set(e, ERROR_NOMEM, "no memory for %d bytes of weights", CHUNK_BYTES);
    int rc = model_each_tensor(a, s, write_tensor, &c, e);
    mem_free(c.chunk);
    return rc;
}
