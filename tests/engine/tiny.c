#include "tests/engine/tiny.h"

#include "engine/gguf/write.h"
#include "tests/test.h"

enum { EMBD = 64, LAYERS = 2, HEADS = 2, KV_HEADS = 1, HEAD = 32, FF = 96, VOCAB = 50 };

struct row {
    char name[64];
    const struct quant *quant;
    uint64_t cols, rows;
};

static bool is(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void put_u32(struct gguf_writer *w, const struct tiny *t, const char *key, uint32_t v)
{
    char name[96];
    if (is(t->skip_key, key))
        return;
    snprintf(name, sizeof(name), "%s.%s", t->arch ? t->arch : "llama", key);
    gguf_put_u32(w, name, is(t->u32_key, key) ? t->u32_value : v);
}

static void put_keys(struct gguf_writer *w, const struct tiny *t)
{
    char name[96];
    const char *arch = t->arch ? t->arch : "llama";
    gguf_put_str(w, "general.architecture", str_of(arch));
    put_u32(w, t, "context_length", 256);
    put_u32(w, t, "embedding_length", EMBD);
    put_u32(w, t, "block_count", LAYERS);
    put_u32(w, t, "feed_forward_length", FF);
    put_u32(w, t, "attention.head_count", HEADS);
    put_u32(w, t, "attention.head_count_kv", KV_HEADS);
    put_u32(w, t, "vocab_size", VOCAB);
    if (is(t->u32_key, "rope.dimension_count") || is(t->u32_key, "expert_count"))
        put_u32(w, t, t->u32_key, 0);
    if (!is(t->skip_key, "attention.layer_norm_rms_epsilon")) {
        snprintf(name, sizeof(name), "%s.attention.layer_norm_rms_epsilon", arch);
        gguf_put_f32(w, name, 1e-5f);
    }
}

static size_t add(struct row *rows, size_t n, const struct tiny *t, const char *name, bool matrix,
                  uint64_t cols, uint64_t n_rows)
{
    if (is(t->skip_tensor, name))
        return n;
    struct row *r = &rows[n];
    snprintf(r->name, sizeof(r->name), "%s", name);
    r->quant = quant_by_name(is(t->f16_tensor, name) ? "F16" : matrix ? "Q8_0" : "F32");
    r->cols = cols + (is(t->wide_tensor, name) ? 32 : 0);
    r->rows = n_rows;
    return n + 1;
}

static size_t list(struct row *rows, const struct tiny *t)
{
    static const struct {
        const char *name;
        bool matrix;
        uint64_t cols, rows;
    } layer[] = {
        {"attn_norm.weight", false, EMBD, 1},
        {"attn_q.weight", true, EMBD, HEADS * HEAD},
        {"attn_k.weight", true, EMBD, KV_HEADS * HEAD},
        {"attn_v.weight", true, EMBD, KV_HEADS * HEAD},
        {"attn_output.weight", true, HEADS * HEAD, EMBD},
        {"ffn_norm.weight", false, EMBD, 1},
        {"ffn_gate.weight", true, EMBD, FF},
        {"ffn_up.weight", true, EMBD, FF},
        {"ffn_down.weight", true, FF, EMBD},
    };
    size_t n = add(rows, 0, t, "token_embd.weight", true, EMBD, VOCAB);
    n = add(rows, n, t, "output_norm.weight", false, EMBD, 1);
    for (int il = 0; il < LAYERS; il++) {
        for (size_t i = 0; i < ARRAY_LEN(layer); i++) {
            char name[64];
            snprintf(name, sizeof(name), "blk.%d.%s", il, layer[i].name);
            n = add(rows, n, t, name, layer[i].matrix, layer[i].cols, layer[i].rows);
        }
    }
    if (t->extra_tensor)
        n = add(rows, n, t, t->extra_tensor, false, EMBD, 1);
    return n;
}

static void put_data(struct gguf_writer *w, const struct row *r, uint64_t seed)
{
    struct error e = {0};
    uint64_t blocks = r->cols * r->rows / r->quant->block_elems;
    for (uint64_t b = 0; b < blocks; b++) {
        unsigned char block[256];
        float one = 1.0f;
        if (r->rows == 1)
            memcpy(block, &one, sizeof(one));
        else
            r->quant->synthesise(block, seed, b, 0.15f);
        CHECK_OK(gguf_writer_data(w, block, r->quant->block_bytes, &e), &e);
    }
}

void tiny_write(const char *path, const struct tiny *t)
{
    struct row rows[64];
    struct gguf_writer *w;
    struct error e = {0};
    size_t n = list(rows, t);
    CHECK_OK(gguf_writer_new(&w, path, 0, &e), &e);
    put_keys(w, t);
    for (size_t i = 0; i < n; i++) {
        uint64_t ne[2] = {rows[i].cols, rows[i].rows};
        gguf_put_tensor(w, rows[i].name, rows[i].quant, rows[i].rows == 1 ? 1 : 2, ne);
    }
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    for (size_t i = 0; i < n; i++)
        put_data(w, &rows[i], i);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);
}
