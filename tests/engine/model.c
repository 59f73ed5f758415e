#include "engine/model/model.h"

#include <unistd.h>

#include "base/alloc.h"
#include "engine/model/step.h"
#include "tests/engine/tiny.h"
#include "tests/test.h"

static int bind(const struct tiny *t, struct error *e)
{
    struct gguf *g;
    struct model m;
    tiny_write("m.gguf", t);
    CHECK_OK(gguf_open(&g, "m.gguf", e), e);
    int rc = model_bind(&m, g, e);
    if (rc == 0)
        model_release(&m);
    gguf_close(g);
    return rc;
}

TEST(model_binds_a_whole_model)
{
    struct error e = {0};
    CHECK_OK(bind(&(struct tiny){0}, &e), &e);
}

/* Each breaks one thing; the sentence names the object. */
TEST(model_refuses_what_is_wrong_by_name)
{
    static const struct {
        struct tiny t;
        enum error_code code;
        const char *part;
    } cases[] = {
        {{.arch = "gpt-j"}, ERROR_UNSUPPORTED, "'gpt-j' is not supported (llama"},
        {{.skip_key = "block_count"}, ERROR_FORMAT, "llama.block_count"},
        {{.skip_key = "context_length"}, ERROR_FORMAT, "llama.context_length"},
        {{.skip_key = "embedding_length"}, ERROR_FORMAT, "llama.embedding_length"},
        {{.skip_key = "attention.head_count"}, ERROR_FORMAT, "llama.attention.head_count"},
        {{.skip_key = "feed_forward_length"}, ERROR_FORMAT, "llama.feed_forward_length"},
        {{.skip_key = "attention.layer_norm_rms_epsilon"}, ERROR_FORMAT, "rms_epsilon"},
        {{.u32_key = "attention.head_count", .u32_value = 0}, ERROR_FORMAT, "head_count is 0"},
        {{.u32_key = "attention.head_count_kv", .u32_value = 0},
         ERROR_FORMAT,
         "head_count_kv is 0"},
        {{.u32_key = "attention.head_count", .u32_value = 3, .skip_key = "attention.head_count_kv"},
         ERROR_FORMAT,
         "is 21, the head size is 21"},
        {{.u32_key = "block_count", .u32_value = 4000000000u}, ERROR_FORMAT, "4000000000"},
        {{.u32_key = "block_count", .u32_value = 3},
         ERROR_FORMAT,
         "'blk.2.attn_norm.weight' is missing"},
        {{.u32_key = "block_count", .u32_value = 1},
         ERROR_FORMAT,
         "'blk.1.attn_norm.weight' is not part"},
        {{.u32_key = "vocab_size", .u32_value = 51},
         ERROR_FORMAT,
         "64 x 50, the model says 64 x 51"},
        {{.u32_key = "rope.dimension_count", .u32_value = 16},
         ERROR_FORMAT,
         "is 16, the head size is 32"},
        {{.u32_key = "expert_count", .u32_value = 8}, ERROR_FORMAT, "expert_used_count is 0"},
        {{.arch = "qwen2", .u32_key = "expert_count", .u32_value = 8},
         ERROR_FORMAT,
         "expert_count is 8"},
        {{.skip_tensor = "token_embd.weight"}, ERROR_FORMAT, "'token_embd.weight' is missing"},
        {{.skip_tensor = "blk.1.ffn_down.weight"},
         ERROR_FORMAT,
         "'blk.1.ffn_down.weight' is missing"},
        {{.extra_tensor = "blk.0.surprise.weight"},
         ERROR_FORMAT,
         "'blk.0.surprise.weight' is not part"},
        {{.wide_tensor = "blk.0.attn_q.weight"}, ERROR_FORMAT, "96 x 64, the model says 64 x 64"},
        {{.f16_tensor = "output_norm.weight"}, ERROR_FORMAT, "format F16, must be F32"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error e = {0};
        CHECK_ERROR(bind(&cases[i].t, &e), &e, cases[i].code, cases[i].part);
    }
}

TEST(model_reports_all_problems_at_once)
{
    struct error e = {0};
    struct tiny t = {.skip_tensor = "blk.0.attn_q.weight",
                     .wide_tensor = "blk.1.ffn_up.weight",
                     .extra_tensor = "stray.weight"};
    CHECK_ERROR(bind(&t, &e), &e, ERROR_FORMAT, "'blk.0.attn_q.weight' is missing");
    CHECK(strstr(e.text, "'blk.1.ffn_up.weight'") && strstr(e.text, "'stray.weight'"));
}

TEST(model_bind_survives_every_failing_allocation)
{
    struct error e = {0};
    struct gguf *g;
    struct model m;
    int rc = -1;
    tiny_write("m.gguf", &(struct tiny){0});
    CHECK_OK(gguf_open(&g, "m.gguf", &e), &e);
    for (long k = 1; rc != 0; k++) {
        CHECK(k < 1000);
        mem_fail_after(k);
        rc = model_bind(&m, g, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM || rc == -ERROR_FORMAT);
    }
    model_release(&m);
    gguf_close(g);
}

static int load(const char *path, uint64_t limit, struct error *e)
{
    struct gguf *g;
    struct model m;
    struct ledger *l;
    CHECK_OK(ledger_new(&l, limit, e), e);
    int rc = gguf_open(&g, path, e);
    if (rc == 0) {
        CHECK_OK(model_bind(&m, g, e), e);
        rc = model_load(&m, &(struct model_load_options){.ledger = l}, e);
        CHECK(rc != 0 || ledger_used(l, LEDGER_TRUNK) == m.trunk_bytes);
        model_release(&m);
        gguf_close(g);
    }
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
    return rc;
}

TEST(model_load_fails_closed)
{
    struct error e = {0};
    tiny_write("m.gguf", &(struct tiny){0});
    CHECK_OK(load("m.gguf", 1 << 24, &e), &e);
    CHECK_ERROR(load("m.gguf", 32768, &e), &e, ERROR_BUDGET, "weights");
    for (int kind = FILE_FAULT_EIO; kind <= FILE_FAULT_SHORT; kind++) {
        int rc = -1;
        long k = 1;
        for (; rc != 0; k++) {
            CHECK(k < 1000);
            file_fail_after(k, (enum file_fault)kind);
            rc = load("m.gguf", 1 << 24, &e);
            file_fail_after(0, FILE_FAULT_NONE);
            CHECK(rc == 0 || rc == -ERROR_IO || rc == -ERROR_FORMAT);
        }
        CHECK(k > 2);
    }
}

TEST(model_file_truncated_between_open_and_load)
{
    struct error e = {0};
    struct gguf *g;
    struct model m;
    struct ledger *l;
    tiny_write("m.gguf", &(struct tiny){0});
    CHECK_OK(ledger_new(&l, 1 << 24, &e), &e);
    CHECK_OK(gguf_open(&g, "m.gguf", &e), &e);
    CHECK_OK(model_bind(&m, g, &e), &e);
    CHECK_INT(truncate("m.gguf", 40000), 0);
    CHECK_ERROR(model_load(&m, &(struct model_load_options){.ledger = l}, &e), &e, ERROR_IO,
                "m.gguf");
    model_release(&m);
    gguf_close(g);
    ledger_free(l);
}

TEST(model_counts_the_problems_it_does_not_show)
{
    struct error e = {0};
    struct tiny t = {.u32_key = "block_count", .u32_value = 9};
    CHECK_ERROR(bind(&t, &e), &e, ERROR_FORMAT, "'blk.2.attn_norm.weight' is missing");
    CHECK(strstr(e.text, " more") != NULL && strlen(e.text) + 1 < sizeof(e.text));
}
