/* inspect, logits and tokenize as a shell sees them. */
#include <cjson/cJSON.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/batch/program.h"
#include "tests/engine/local_kit.h"
#include "tests/test.h"

static int run_on(const char *model, const char *format, char *out, size_t size)
{
    char arguments[8192];
    const char *mark = strchr(format, '@');
    CHECK(mark != NULL);
    snprintf(arguments, sizeof(arguments), "%.*s%s%s", (int)(mark - format), format, model,
             mark + 1);
    return program_run(arguments, out, size);
}

static int keep_last(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                     struct error *e)
{
    (void)position;
    (void)e;
    memcpy(context, logits, n_vocab * sizeof(float));
    return 0;
}

TEST(logits_writes_the_rows_that_the_engine_gives)
{
    static const int32_t ids[] = {5, 17, 200, 3};
    char path[4096];
    char out[4096];
    float want[600];
    struct buf got;
    struct error e = {0};
    kit_model("Q8_0", path);
    const struct engine_options o = {.model_path = path, .exact = true};
    struct kit_engine k = kit_open(&o);
    CHECK_OK(engine_score(k.en, ids, 4, 1, keep_last, want, &e), &e);
    kit_close(&k);
    CHECK_INT(run_on(path, "logits -m @ --tokens 5,17,200,3 --exact -o rows", out, sizeof(out)), 0);
    CHECK_STR(out, "");
    buf_init(&got, 1u << 20);
    CHECK_OK(file_read_all("rows", got.max, &got, &e), &e);
    CHECK_INT(got.len, 4 * sizeof(want));
    CHECK(memcmp(got.ptr + 3 * sizeof(want), want, sizeof(want)) == 0);
    buf_release(&got);
    CHECK_INT(
        run_on(path,
               "logits -m @ --tokens 5,17,200,3 --exact --last 1 --chunk 2 --threads 1 -o last",
               out, sizeof(out)),
        0);
    CHECK_OK(file_read_all("last", got.max, &got, &e), &e);
    CHECK_INT(got.len, sizeof(want));
    CHECK(memcmp(got.ptr, want, sizeof(want)) == 0);
    buf_release(&got);
}

TEST(logits_refuses_with_the_status_of_the_mistake)
{
    char path[4096];
    char out[4096];
    kit_model("Q8_0", path);
    CHECK_INT(run_on(path, "logits -m @ -o rows", out, sizeof(out)), 2);
    CHECK_INT(run_on(path, "logits -m @ --tokens 1,x -o rows", out, sizeof(out)), 2);
    CHECK(strstr(out, "--tokens") != NULL);
    CHECK_INT(run_on(path, "logits -m @ --tokens 1,600 -o rows", out, sizeof(out)), 4);
    CHECK(strstr(out, "token 1 is 600, the vocabulary has 600") != NULL);
    CHECK_INT(run_on(path, "logits -m @ --tokens 1,2,3 --ctx 2 -o rows", out, sizeof(out)), 4);
    CHECK(strstr(out, "3 tokens, the context holds 2") != NULL);
    CHECK_INT(run_on(path, "logits -m @ --tokens 1 --memory 20M -o rows", out, sizeof(out)), 4);
    CHECK(strstr(out, "the budget is 20.0 MiB (20971520 bytes)") != NULL);
    CHECK_INT(run_on(path, "logits -m @.gone --tokens 1 -o rows", out, sizeof(out)), 3);
    CHECK_INT(run_on(path, "logits -m @ --tokens 1 -o nowhere/rows", out, sizeof(out)), 3);
    /* Nothing half written is left behind. */
    CHECK(access("rows", F_OK) != 0);
}

TEST(tokenize_prints_ids_one_text_a_line)
{
    char path[4096];
    char one[4096];
    char other[4096];
    char both[8192];
    char out[8192];
    kit_model("F16", path);
    CHECK_INT(run_on(path, "tokenize -m @ 'the harbour'", one, sizeof(one)), 0);
    CHECK_INT(run_on(path, "tokenize -m @ 'two\nlines'", other, sizeof(other)), 0);
    CHECK(strspn(one, "0123456789 \n") == strlen(one) && strlen(one) > 3);
    snprintf(both, sizeof(both), "%s%s\n", one, other);
    FILE *texts = fopen("texts", "wb");
    CHECK(texts && fwrite("the harbour\0two\nlines\0\0", 1, 23, texts) == 23);
    fclose(texts);
    CHECK_INT(run_on(path, "tokenize -m @ --stdin0 <texts", out, sizeof(out)), 0);
    CHECK_STR(out, both);
    CHECK_INT(run_on(path, "tokenize -m @", out, sizeof(out)), 2);
    CHECK_INT(program_run("tokenize text", out, sizeof(out)), 2);
    CHECK(strstr(out, "which model") != NULL);
}

TEST(inspect_shows_the_plan_of_a_budget)
{
    char path[4096];
    static char out[1u << 20];
    kit_model("Q4_K", path);
    CHECK_INT(run_on(path, "inspect @ --memory 40M --slots 2 --json", out, sizeof(out)), 0);
    cJSON *json = cJSON_Parse(out);
    const cJSON *plan = cJSON_GetObjectItem(json, "plan");
    CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(json, "architecture")), "llama");
    CHECK_INT(cJSON_GetArraySize(cJSON_GetObjectItem(json, "tensors")), 21);
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "slots")), 2);
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "limit_bytes")), 40 << 20);
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "memory_high_bytes")), 72 << 20);
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "memory_max_bytes")), 104 << 20);
    CHECK(cJSON_IsFalse(cJSON_GetObjectItem(plan, "fits")));
    cJSON_Delete(json);
    CHECK_INT(run_on(path, "inspect @ --tensors", out, sizeof(out)), 0);
    CHECK(strstr(out, "blk.1.ffn_down.weight") && strstr(out, "at least"));
    CHECK(strstr(out, "fits; ") && strstr(out, " of it are kept for "));
    CHECK_INT(run_on(path, "inspect @ --memory 24G --slots 2", out, sizeof(out)), 0);
    CHECK(strstr(out, "MemoryHigh=25191M MemoryMax=25805M\n"));
    CHECK_INT(run_on(path, "inspect @ --memory 40M --slots 2", out, sizeof(out)), 0);
    CHECK(strstr(out, "does not fit\n") && strstr(out, "M is the least for one slot of"));
}

static double makeup(const cJSON *json, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "makeup"), name));
}

static void mkmodel(const char *arguments)
{
    char line[9000];
    const int folder = (int)(strrchr(test_program(), '/') - test_program());
    snprintf(line, sizeof(line), "'%.*s/tools/mkmodel' %s >out.txt", folder, test_program(),
             arguments);
    CHECK_INT(system(line), 0);
}

static cJSON *inspect(const char *arguments)
{
    static char out[1u << 20];
    char line[512];
    snprintf(line, sizeof(line), "inspect %s --json", arguments);
    CHECK_INT(program_run(line, out, sizeof(out)), 0);
    cJSON *json = cJSON_Parse(out);
    CHECK(json != NULL);
    return json;
}

TEST(inspect_says_what_a_dense_model_is_made_of)
{
    mkmodel("--arch llama --vocab 300 --layers 3 --embd 256 --heads 4 --kv-heads 2 --head-dim 32"
            " --ff 512 --type Q8_0 -o m.gguf");
    cJSON *json = inspect("m.gguf");
    const double layer = 256 * (128 + 64 + 64 + 128 + 3 * 512);
    const double floats = 256 + 3 * 2 * 256;
    CHECK_INT(makeup(json, "gqa_layers"), 3);
    CHECK_INT(makeup(json, "dense_layers"), 3);
    CHECK_INT(makeup(json, "moe_layers"), 0);
    CHECK_INT(makeup(json, "experts_bytes"), 0);
    CHECK_INT(makeup(json, "trunk_weights"), 2 * 300 * 256 + 3 * layer + floats);
    CHECK_INT(makeup(json, "trunk_bytes"),
              (2 * 300 * 256 + 3 * layer) / 32 * 34 + floats * sizeof(float));
    /* of the embedding one row */
    CHECK_INT(makeup(json, "trunk_read_bytes"),
              (301 * 256 + 3 * layer) / 32 * 34 + floats * sizeof(float));
    CHECK_INT(makeup(json, "cache_bytes_per_token"), 3 * (64 + 64) * 2);
    CHECK_INT(makeup(json, "recurrent_bytes_per_sequence"), 0);
    cJSON_Delete(json);
    json = inspect("m.gguf --exact");
    CHECK_INT(makeup(json, "cache_bytes_per_token"), 3 * (64 + 64) * 4);
    cJSON_Delete(json);
}
TEST(inspect_says_what_a_model_is_made_of)
{
    mkmodel("--arch qwen3moe --vocab 300 --layers 3 --embd 256 --heads 4 --kv-heads 2 --head-dim 32"
            " --experts 8 --used 3 --expert-ff 256 --type F32 --expert-type Q4_0 --tied -o m.gguf");
    cJSON *json = inspect("m.gguf");
    const double expert = 3 * 256 * 256;
    const double trunk = 300 * 256 + 256 + 3 * (256 * (128 + 64 + 64 + 128 + 8) + 2 * 256 + 2 * 32);
    CHECK_INT(makeup(json, "gqa_layers"), 3);
    CHECK_INT(makeup(json, "moe_layers"), 3);
    CHECK_INT(makeup(json, "dense_layers"), 0);
    CHECK_INT(makeup(json, "experts"), 8);
    CHECK_INT(makeup(json, "experts_used"), 3);
    CHECK_INT(makeup(json, "smallest_expert_bytes"), expert / 32 * 18);
    CHECK_INT(makeup(json, "experts_bytes"), 3 * 8 * expert / 32 * 18);
    CHECK_INT(makeup(json, "experts_read_bytes"), 3 * 3 * expert / 32 * 18);
    CHECK_INT(makeup(json, "trunk_weights"), trunk);
    CHECK_INT(makeup(json, "trunk_bytes"), trunk * 4);
    CHECK_INT(makeup(json, "trunk_read_bytes"), trunk * 4); /* tied: the embedding is the output */
    CHECK_INT(makeup(json, "cache_bytes_per_token"), 3 * (64 + 64) * 2);
    CHECK_INT(makeup(json, "recurrent_bytes_per_sequence"), 0);
    cJSON_Delete(json);
    json = inspect("m.gguf --exact");
    CHECK_INT(makeup(json, "cache_bytes_per_token"), 3 * (64 + 64) * 4);
    cJSON_Delete(json);
}

/*
 * The real Kimi-K3's dimensions in 34 files of holes: what engine-spec 10 says of its experts, of what
 * a token reads and of its state, computed here from the dimensions.
 */
enum {
    K3_EMBD = 7168,
    K3_VOCAB = 163840,
    K3_LAYERS = 93,
    K3_MLA = 24,
    K3_KDA = K3_LAYERS - K3_MLA,
    K3_MOE = K3_LAYERS - 1,
    K3_HEADS = 96,
    K3_HEAD = 128,
    K3_INNER = K3_HEADS * K3_HEAD,
    K3_Q_LORA = 1536,
    K3_KV_LORA = 512,
    K3_ROPE = 64,
    K3_LATENT = 3584,
    K3_EXPERT_FF = 3072,
    K3_EXPERTS = 896,
    K3_USED = 16,
    K3_SHARED_FF = 2 * K3_EXPERT_FF,
    K3_FF = 33792
};

static void check_k3_experts(const cJSON *json)
{
    const double expert = 3.0 * K3_LATENT * K3_EXPERT_FF;
    const double bytes = expert / 256 * 50; /* IQ1_S */
    CHECK_INT(makeup(json, "experts"), K3_EXPERTS);
    CHECK_INT(makeup(json, "experts_used"), K3_USED);
    CHECK_INT(makeup(json, "experts_shared"), 2);
    CHECK_INT(makeup(json, "expert_weights"), expert);
    CHECK_INT(makeup(json, "smallest_expert_bytes"), bytes);
    CHECK_INT(makeup(json, "largest_expert_bytes"), bytes);
    CHECK_INT(makeup(json, "experts_bytes"), bytes * K3_EXPERTS * K3_MOE);
    CHECK_INT(makeup(json, "experts_read_bytes"), bytes * K3_USED * K3_MOE);
    CHECK_INT(makeup(json, "experts_read_weights"), expert * K3_USED * K3_MOE);
}

/* What every token reads beside experts: by the format that its rows fit. */
static void check_k3_trunk(const cJSON *json)
{
    const double kda_float = 3 * 4 * K3_INNER + K3_HEADS + K3_INNER + K3_HEAD;
    const double kda_narrow = (double)K3_HEAD * K3_INNER; /* rows of 128: ssm_f_b */
    const double kda_wide = (double)K3_EMBD * (5 * K3_INNER + K3_HEAD + K3_HEADS);
    const double mla_float = K3_Q_LORA + K3_KV_LORA;
    const double mla_narrow = (double)K3_HEADS * K3_HEAD * K3_KV_LORA; /* attn_k_b */
    const double mla_wide = (double)K3_EMBD * (K3_Q_LORA + K3_KV_LORA + K3_ROPE + 2 * K3_INNER) +
                            (double)K3_Q_LORA * K3_HEADS * (K3_HEAD + K3_ROPE) +
                            (double)K3_HEADS * K3_HEAD * K3_KV_LORA;
    const double moe_float = (double)(K3_EMBD + 1) * K3_EXPERTS + K3_LATENT;
    const double moe_wide = (double)K3_EMBD * (2 * K3_LATENT + 3 * K3_SHARED_FF);
    const double wide = K3_KDA * kda_wide + K3_MLA * mla_wide + K3_MOE * moe_wide +
                        3.0 * K3_EMBD * K3_FF + (double)K3_EMBD * K3_VOCAB;
    const double narrow = K3_KDA * kda_narrow + K3_MLA * mla_narrow;
    const double floats = K3_KDA * kda_float + K3_MLA * mla_float + K3_MOE * moe_float +
                          (double)K3_EMBD * (4 * K3_LAYERS + 2);
    const double bytes = (wide + K3_EMBD) / 256 * 144 + narrow / 32 * 22 + floats * sizeof(float);
    CHECK_INT(makeup(json, "trunk_read_weights"), wide + narrow + floats + K3_EMBD);
    CHECK_INT(makeup(json, "trunk_read_bytes"), bytes);
    CHECK_INT(makeup(json, "trunk_bytes"), bytes + (K3_VOCAB - 1.0) * K3_EMBD / 256 * 144);
}

TEST(inspect_says_of_kimi_k3_what_its_dimensions_say)
{
    mkmodel("--like Kimi-K3 --type Q4_K --expert-type IQ1_S --sparse --shards 34 -o k3.gguf");
    cJSON *json = inspect("k3-00001-of-00034.gguf --memory 256G --slots 1 --ctx 4096");
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "files")), 34);
    CHECK_INT(makeup(json, "kda_layers"), K3_KDA);
    CHECK_INT(makeup(json, "mla_layers"), K3_MLA);
    CHECK_INT(makeup(json, "dense_layers"), 1);
    CHECK_INT(makeup(json, "moe_layers"), K3_MOE);
    check_k3_experts(json);
    check_k3_trunk(json);
    /* latent rows in f16; in f32 a matrix a head, and three past tokens of q, k and v */
    CHECK_INT(makeup(json, "cache_bytes_per_token"), (K3_KV_LORA + K3_ROPE) * 2 * K3_MLA);
    CHECK_INT(makeup(json, "recurrent_bytes_per_sequence"),
              4 * K3_KDA * (K3_INNER * K3_HEAD + 3 * 3 * K3_INNER));
    const cJSON *plan = cJSON_GetObjectItem(json, "plan");
    /* Weights and state are resident, experts take the rest: some of them at once. */
    const double slots = cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "expert_slots"));
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "expert_count")), K3_MOE * K3_EXPERTS);
    CHECK(cJSON_IsTrue(cJSON_GetObjectItem(plan, "fits")));
    CHECK(slots > 100 * K3_MOE && slots < K3_EXPERTS * K3_MOE);
    CHECK(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "experts_bytes")) >
          slots * makeup(json, "experts_bytes") / (K3_EXPERTS * K3_MOE));
    CHECK(cJSON_GetNumberValue(cJSON_GetObjectItem(plan, "state_bytes")) >
          4096 * makeup(json, "cache_bytes_per_token") +
              makeup(json, "recurrent_bytes_per_sequence"));
    cJSON_Delete(json);
}
