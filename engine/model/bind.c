/*
 * From a file's directory to a model: hyper-parameters, then every tensor by name, shape and format.
 * All problems are collected and reported together.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "engine/model/arch.h"

/* What fits into an error's sentence beside the path and the count of the rest. */
#define PROBLEMS_BYTES 420

struct binder {
    struct model *m;
    const char *arch;
    struct buf problems;
    size_t n_problems;
    size_t n_shown;
    uint32_t *each; /* [n_layers] values of the key being read */
    bool *bound;    /* [gguf_n_tensors] */
};

static void problem(struct binder *b, const char *fmt, ...) ATTR_PRINTF(2, 3);
static void problem(struct binder *b, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    b->n_problems++;
    if (b->n_shown + 1 == b->n_problems && b->problems.len + strlen(text) < PROBLEMS_BYTES) {
        buf_printf(&b->problems, "%s%s", b->n_shown ? "; " : "", text);
        b->n_shown++;
    }
}

/* ------------------------------------------------------------------ keys */

static void note(struct binder *b, int rc, const struct error *e)
{
    if (rc != 0)
        problem(b, "%s", e->text);
}

static const char *key_name(const struct binder *b, const char *key, char out[128])
{
    snprintf(out, 128, "%s.%s", b->arch, key);
    return out;
}

static void key_u32(struct binder *b, const char *key, bool required, uint32_t *ret)
{
    char name[128];
    struct error e = {0};
    note(b, gguf_u32(b->m->gguf, key_name(b, key, name), required, ret, &e), &e);
}

/* 0 says no more than a missing key. */
static void key_u32_or_0(struct binder *b, const char *key, uint32_t *ret)
{
    uint32_t v = 0;
    key_u32(b, key, false, &v);
    if (v != 0)
        *ret = v;
}

static void key_f32(struct binder *b, const char *key, bool required, float *ret)
{
    char name[128];
    struct error e = {0};
    float v = *ret;
    int rc = gguf_f32(b->m->gguf, key_name(b, key, name), required, &v, &e);
    note(b, rc, &e);
    if (rc == 0 && !isfinite(v))
        problem(b, "%s is not a finite number", name);
    else
        *ret = v;
}

static void key_bool(struct binder *b, const char *key, bool required, bool *ret)
{
    char name[128];
    struct error e = {0};
    note(b, gguf_bool(b->m->gguf, key_name(b, key, name), required, ret, &e), &e);
}

/* A key that may differ by layer, into b->each. */
static void key_each(struct binder *b, const char *key, bool required, uint32_t missing)
{
    char name[128];
    struct error e = {0};
    for (uint32_t i = 0; i < b->m->hp.n_layers; i++)
        b->each[i] = missing;
    note(b,
         gguf_u32_layers(b->m->gguf, key_name(b, key, name), required, b->each, b->m->hp.n_layers,
                         &e),
         &e);
}

/* The same, where the architecture wants one value for all. */
static void key_layers(struct binder *b, const char *key, bool required, uint32_t *ret)
{
    char name[128];
    key_each(b, key, required, *ret);
    for (uint32_t i = 1; i < b->m->hp.n_layers; i++) {
        if (b->each[i] != b->each[0]) {
            problem(b, "%s is %u at layer 0 and %u at layer %u: %s has one for all",
                    key_name(b, key, name), b->each[0], b->each[i], i, b->arch);
            break;
        }
    }
    *ret = b->each[0];
}

/* Every layer's own; the largest stands for the model. */
static void read_kv_heads(struct binder *b)
{
    struct hparams *hp = &b->m->hp;
    hp->n_kv_heads = hp->n_heads;
    if (!b->m->arch->hybrid)
        key_layers(b, "attention.head_count_kv", false, &hp->n_kv_heads);
    else
        key_each(b, "attention.head_count_kv", true, 0);
    for (uint32_t i = 0; i < hp->n_layers; i++)
        b->m->layers[i].n_kv_heads = b->each[i];
    if (!b->m->arch->hybrid)
        return;
    hp->n_kv_heads = 0;
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        if (b->each[i] != 0 && hp->n_kv_heads != 0 && b->each[i] != hp->n_kv_heads)
            problem(b, "%s.attention.head_count_kv is %u at layer %u and %u before", b->arch,
                    b->each[i], i, hp->n_kv_heads);
        hp->n_kv_heads = MAX_OF(hp->n_kv_heads, b->each[i]);
    }
}

static void read_arch_keys(struct binder *b)
{
    const struct key_row *row = b->m->arch->keys;
    for (; row && row->name; row++) {
        void *field = (char *)&b->m->hp + row->offset;
        switch (row->type) {
        case KEY_U32:
            key_u32(b, row->name, row->required, field);
            break;
        case KEY_U32_OR_0:
            key_u32_or_0(b, row->name, field);
            break;
        case KEY_F32:
            key_f32(b, row->name, row->required, field);
            break;
        case KEY_BOOL:
            key_bool(b, row->name, row->required, field);
            break;
        }
    }
}

static void read_rope(struct binder *b)
{
    struct hparams *hp = &b->m->hp;
    struct rope_params *r = &hp->rope;
    struct str type = str_of("linear");
    struct error e = {0};
    char name[128];
    float factor = 0.0f, ext = -1.0f, attn = 1.0f, yarn_attn = 1.0f;

    *r = (struct rope_params){.neox = b->m->arch->rope_neox,
                              .n_rot = hp->head_dim,
                              .freq_base = 10000.0f,
                              .beta_fast = 32.0f,
                              .beta_slow = 1.0f,
                              .n_ctx_orig = hp->n_ctx};
    key_u32(b, "rope.dimension_count", false, &r->n_rot);
    key_f32(b, "rope.freq_base", false, &r->freq_base);
    key_f32(b, "rope.scale_linear", false, &factor);
    key_f32(b, "rope.scaling.factor", false, &factor);
    key_f32(b, "rope.scaling.attn_factor", false, &attn);
    key_f32(b, "rope.scaling.yarn_ext_factor", false, &ext);
    key_f32(b, "rope.scaling.yarn_attn_factor", false, &yarn_attn);
    key_f32(b, "rope.scaling.yarn_beta_fast", false, &r->beta_fast);
    key_f32(b, "rope.scaling.yarn_beta_slow", false, &r->beta_slow);
    key_f32(b, "rope.scaling.yarn_log_multiplier", false, &r->log_multiplier);
    key_u32(b, "rope.scaling.original_context_length", false, &r->n_ctx_orig);
    note(b, gguf_str(b->m->gguf, key_name(b, "rope.scaling.type", name), false, &type, &e), &e);

    bool yarn = str_equal_c(type, "yarn");
    bool none = str_equal_c(type, "none");
    if (!yarn && !none && !str_equal_c(type, "linear"))
        problem(b, "%s '%.*s' is not supported (none, linear, yarn)", name,
                (int)MIN_OF(type.len, 40u), type.ptr);
    r->freq_scale = factor == 0.0f || none ? 1.0f : 1.0f / factor;
    r->ext_factor = yarn ? (ext < 0 ? 1.0f : ext) : 0.0f;
    r->attn_factor = attn * yarn_attn; /* rope_angles multiplies YaRN's 0.1 ln f + 1 */
    if (r->n_rot == 0 || r->n_rot % 2 != 0 || r->n_rot > hp->head_dim)
        problem(b, "rope.dimension_count is %u, the head size is %u", r->n_rot, hp->head_dim);
    if (!(r->freq_base > 1.0f))
        problem(b, "rope.freq_base is %g, must be above 1", (double)r->freq_base);
}

static void read_vocab_size(struct binder *b)
{
    struct gguf_value tokens;
    struct hparams *hp = &b->m->hp;
    const struct gguf_tensor *embd = gguf_tensor_find(b->m->gguf, "token_embd.weight");
    bool known =
        gguf_find(b->m->gguf, "tokenizer.ggml.tokens", &tokens) && tokens.type == GGUF_ARRAY;
    if (known && tokens.count <= INT32_MAX)
        hp->n_vocab = (uint32_t)tokens.count;
    key_u32(b, "vocab_size", false, &hp->n_vocab);
    if (known)
        hp->n_vocab = (uint32_t)MIN_OF(tokens.count, (uint64_t)INT32_MAX);
    else if (hp->n_vocab == 0 && embd && embd->ne[1] <= INT32_MAX)
        hp->n_vocab = (uint32_t)embd->ne[1];
}

static void check_counts(struct binder *b)
{
    const struct hparams *hp = &b->m->hp;
    const struct {
        const char *name;
        uint32_t value, max;
    } counts[] = {
        {"embedding_length", hp->n_embd, 1u << 20}, {"head_count", hp->n_heads, 65536},
        {"head_count_kv", hp->n_kv_heads, 65536},   {"key_length", hp->head_dim, 65536},
        {"value_length", hp->value_dim, 65536},     {"context_length", hp->n_ctx, 1u << 30},
        {"vocabulary", hp->n_vocab, 1u << 30},
    };
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        if (counts[i].value == 0 || counts[i].value > counts[i].max)
            problem(b, "%s is %u, must be 1 to %u", counts[i].name, counts[i].value, counts[i].max);
    }
    if ((hp->n_ff == 0 && hp->n_experts == 0) || hp->n_ff > 1u << 24)
        problem(b, "feed_forward_length is %u, must be 1 to %u", hp->n_ff, 1u << 24);
    if (hp->n_kv_heads && hp->n_heads % hp->n_kv_heads != 0)
        problem(b, "head_count %u is no multiple of head_count_kv %u", hp->n_heads, hp->n_kv_heads);
    if (!(hp->rms_eps > 0.0f && hp->rms_eps < 1.0f))
        problem(b, "attention.layer_norm_rms_epsilon is %g", (double)hp->rms_eps);
}

#define MAX_LAYERS 4096u

/* The number of layers, and room for what is said of each. */
static void read_layers(struct binder *b)
{
    uint32_t n = 0;
    key_u32(b, "block_count", true, &n);
    if (b->n_problems == 0 && (n == 0 || n > MAX_LAYERS))
        problem(b, "block_count is %u, must be 1 to %u", n, MAX_LAYERS);
    if (b->n_problems > 0)
        return;
    b->m->layers = mem_array(MAX_OF(n, 1u), sizeof(*b->m->layers));
    b->each = mem_array(MAX_OF(n, 1u), sizeof(*b->each));
    if (b->m->layers && b->each)
        b->m->hp.n_layers = n;
    else
        problem(b, "no memory for %u layers", n);
}

static void read_hparams(struct binder *b)
{
    struct hparams *hp = &b->m->hp;
    key_u32(b, "embedding_length", true, &hp->n_embd);
    key_u32(b, "context_length", true, &hp->n_ctx);
    key_layers(b, "attention.head_count", true, &hp->n_heads);
    read_kv_heads(b);
    key_u32(b, "expert_count", false, &hp->n_experts);
    key_layers(b, "feed_forward_length", hp->n_experts == 0, &hp->n_ff);
    hp->head_dim = hp->value_dim = hp->n_heads ? hp->n_embd / hp->n_heads : 0;
    key_u32(b, "attention.key_length", false, &hp->head_dim);
    key_u32(b, "attention.value_length", false, &hp->value_dim);
    key_f32(b, "attention.layer_norm_rms_epsilon", true, &hp->rms_eps);
    if (hp->n_experts > 0 && !b->m->arch->experts)
        problem(b, "expert_count is %u: mixtures of experts are not supported for '%s'",
                hp->n_experts, b->arch);
    read_arch_keys(b);
    read_vocab_size(b);
    read_rope(b);
    hp->attention_scale = hp->head_dim ? 1.0f / sqrtf((float)hp->head_dim) : 0.0f;
    key_f32(b, "attention.scale", false, &hp->attention_scale);
    check_counts(b);
}

/* --------------------------------------------------------------- tensors */

/* Vectors may stand as a row or as a column; slices lie along the third dimension. */
static bool same_shape(const struct gguf_tensor *t, uint64_t cols, uint64_t rows, uint64_t slices)
{
    uint64_t others = t->ne[1] * t->ne[2] * t->ne[3];
    if (rows == 1)
        return t->ne[0] * others == cols;
    return t->ne[0] == cols && others == rows && (slices == 1 || t->ne[1] == rows / slices);
}

static void bind_row(struct binder *b, const struct tensor_row *row, const char *name, void *owner)
{
    const struct hparams *hp = &b->m->hp;
    struct tensor *t = (struct tensor *)((char *)owner + row->offset);
    const struct gguf_tensor *file = gguf_tensor_find(b->m->gguf, name);
    uint64_t slices = arch_dim(hp, row->slices);
    uint64_t cols = arch_dim(hp, row->cols), rows = arch_dim(hp, row->rows) * slices;

    if (!file) {
        if (!(row->flags & TENSOR_OPTIONAL))
            problem(b, "tensor '%s' is missing", name);
        return;
    }
    b->bound[file - gguf_tensor_at(b->m->gguf, 0)] = true;
    if (!file->quant) {
        const char *format = quant_id_name(file->ggml_id);
        problem(b, "tensor '%s': format %s is not supported", name, format ? format : "unknown");
        return;
    }
    if (!same_shape(file, cols, rows, slices)) {
        problem(b, "tensor '%s': %llu x %llu, the model says %llu x %llu", name,
                (unsigned long long)file->ne[0],
                (unsigned long long)(file->ne[1] * file->ne[2] * file->ne[3]),
                (unsigned long long)cols, (unsigned long long)rows);
        return;
    }
    if ((row->flags & TENSOR_F32) && file->quant->index != QUANT_INDEX_f32) {
        problem(b, "tensor '%s': format %s, must be F32", name, file->quant->name);
        return;
    }
    *t = (struct tensor){.quant = file->quant,
                         .n_cols = cols,
                         .n_rows = rows,
                         .n_slices = (uint32_t)slices,
                         .row_bytes = quant_row_bytes(file->quant, cols),
                         .slice_bytes = rows / slices * quant_row_bytes(file->quant, cols),
                         .experts = row->flags & TENSOR_EXPERTS,
                         .file = file};
}

static void bind_tensors(struct binder *b)
{
    struct model *m = b->m;
    for (const struct tensor_row *row = m->arch->tensors; row->name; row++)
        bind_row(b, row, row->name, m);
    for (uint32_t il = 0; il < m->hp.n_layers; il++) {
        for (const struct tensor_row *row = m->arch->layer_tensors; row->name; row++) {
            char name[128];
            if ((m->layers[il].parts & row->parts) != row->parts)
                continue;
            snprintf(name, sizeof(name), "blk.%u.%s", il, row->name);
            bind_row(b, row, name, &m->layers[il]);
        }
    }
    m->tied = m->output.file == NULL;
    for (size_t i = 0; i < gguf_n_tensors(m->gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        if (!b->bound[i])
            problem(b, "tensor '%.*s' is not part of '%s'", (int)t->name.len, t->name.ptr, b->arch);
    }
}

static int report(struct binder *b, struct error *e)
{
    if (b->n_problems == 0)
        return 0;
    if (b->n_problems > b->n_shown)
        buf_printf(&b->problems, "; and %zu more", b->n_problems - b->n_shown);
    return error_set(e, ERROR_FORMAT, "%s: %s", gguf_shard_path(b->m->gguf, 0),
                     b->problems.ptr ? b->problems.ptr : "out of memory");
}

/* Parts of every layer, then its place among those of its kind of state. */
static int configure(struct model *m, struct error *e)
{
    uint32_t n_paged = 0, n_recurrent = 0;
    int rc = 0;
    if (m->arch->configure)
        rc = m->arch->configure(m, e);
    else
        arch_parts_all(m, PART_GQA | PART_DENSE);
    for (uint32_t il = 0; il < m->hp.n_layers; il++)
        m->layers[il].state = m->layers[il].parts & PART_KDA ? n_recurrent++ : n_paged++;
    return rc == 0 ? 0 : error_wrap(e, "%s", gguf_shard_path(m->gguf, 0));
}

int model_bind(struct model *m, struct gguf *g, struct error *e)
{
    struct str arch = {0};
    char name[64], names[256];
    int rc = gguf_str(g, "general.architecture", true, &arch, e);
    if (rc != 0)
        return rc;
    *m = (struct model){.gguf = g, .arch = arch_find(arch)};
    snprintf(name, sizeof(name), "%.*s", (int)MIN_OF(arch.len, sizeof(name) - 1), arch.ptr);
    if (!m->arch)
        return error_set(e, ERROR_UNSUPPORTED, "%s: architecture '%s' is not supported (%s)",
                         gguf_shard_path(g, 0), name, arch_names(names, sizeof(names)));

    struct binder b = {.m = m, .arch = m->arch->name};
    buf_init(&b.problems, 8192);
    read_layers(&b);
    if (m->hp.n_layers > 0)
        read_hparams(&b);
    rc = report(&b, e);
    if (rc == 0)
        rc = configure(m, e);
    if (rc != 0)
        goto out;
    b.bound = mem_array(MAX_OF(gguf_n_tensors(g), (size_t)1), sizeof(bool));
    if (!b.bound) {
        rc = error_set(e, ERROR_NOMEM, "no memory for %zu tensors", gguf_n_tensors(g));
        goto out;
    }
    bind_tensors(&b);
    rc = report(&b, e);
    if (rc == 0)
        rc = model_lay_out_trunk(m, e);
    if (rc == 0)
        rc = model_find_experts(m, e);
out:
    mem_free(b.bound);
    mem_free(b.each);
    buf_release(&b.problems);
    if (rc != 0)
        model_release(m);
    return rc;
}
