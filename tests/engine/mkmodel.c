/* The model writer as a program: what it writes opens, is what was asked for, and is the same again. */
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/test.h"

/* Exit status of mkmodel with these arguments. */
static int mkmodel(const char *arguments)
{
    char command[8192];
    const char *program = test_program();
    int folder = (int)(strrchr(program, '/') - program);
    snprintf(command, sizeof(command), "%.*s/tools/mkmodel %s >out.txt 2>&1", folder, program,
             arguments);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct gguf *open_model(const char *path)
{
    struct error e = {0};
    struct gguf *g = NULL;
    CHECK_OK(gguf_open(&g, path, &e), &e);
    return g;
}

static void hash_file(const char *path, uint8_t out[32])
{
    struct error e = {0};
    struct buf file;
    struct sha256 h;
    buf_init(&file, 64 << 20);
    CHECK_OK(file_read_all(path, 64 << 20, &file, &e), &e);
    sha256_init(&h);
    sha256_add(&h, file.ptr, file.len);
    sha256_end(&h, out);
    buf_release(&file);
}

TEST(mkmodel_is_a_function_of_its_options)
{
    uint8_t digest[3][32];
    CHECK_INT(mkmodel("--arch qwen3 --type Q4_K --seed 5 -o a.gguf"), 0);
    CHECK_INT(mkmodel("--arch qwen3 --type Q4_K --seed 5 -o b.gguf"), 0);
    CHECK_INT(mkmodel("--arch qwen3 --type Q4_K --seed 6 -o c.gguf"), 0);
    hash_file("a.gguf", digest[0]);
    hash_file("b.gguf", digest[1]);
    hash_file("c.gguf", digest[2]);
    CHECK(memcmp(digest[0], digest[1], 32) == 0);
    CHECK(memcmp(digest[0], digest[2], 32) != 0);
}

/* Root mean square of the tensor's numbers. */
static double tensor_rms(const struct gguf *g, const char *name)
{
    struct error e = {0};
    struct file f;
    const struct gguf_tensor *t = gguf_tensor_find(g, name);
    CHECK(t && t->quant);
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    uint8_t *bytes = mem_alloc((size_t)t->bytes);
    float *values = mem_array(n, sizeof(*values));
    CHECK(bytes && values);
    CHECK_OK(file_open(&f, gguf_shard_path(g, t->shard), &e), &e);
    CHECK_OK(file_read_at(&f, bytes, (size_t)t->bytes, t->offset, &e), &e);
    t->quant->decode(bytes, values, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[i];
    file_close(&f);
    mem_free(bytes);
    mem_free(values);
    return sqrt(sum / (double)n);
}

/* Every format: the weights of a matrix have rms gain / sqrt(columns), so that logits stay sane. */
TEST(mkmodel_weights_are_sane_in_every_format)
{
    for (size_t i = 0; i < QUANT_COUNT; i++) {
        char arguments[256];
        snprintf(arguments, sizeof(arguments),
                 "--arch llama --layers 1 --vocab 300 --type %s -o m.gguf", quants[i]->name);
        CHECK_INT(mkmodel(arguments), 0);
        struct gguf *g = open_model("m.gguf");
        CHECK(gguf_tensor_find(g, "blk.0.attn_q.weight")->quant == quants[i]);
        double gain = tensor_rms(g, "blk.0.attn_q.weight") * sqrt(256);
        double norm = tensor_rms(g, "output_norm.weight");
        if (gain < 1.2 || gain > 1.9 || norm < 0.9 || norm > 1.1)
            test_fail(__FILE__, __LINE__, "%s: gain %.3f, want 1.5; norms %.3f, want 1",
                      quants[i]->name, gain, norm);
        gguf_close(g);
    }
}

TEST(mkmodel_falls_back_where_a_block_does_not_fit)
{
    CHECK_INT(mkmodel("--arch llama --embd 96 --heads 3 --head-dim 32 --ff 100 --type Q6_K"
                      " -o m.gguf"),
              0);
    struct gguf *g = open_model("m.gguf");
    CHECK_STR(gguf_tensor_find(g, "blk.0.attn_q.weight")->quant->name, "Q8_0");
    CHECK_STR(gguf_tensor_find(g, "blk.1.ffn_down.weight")->quant->name, "F16");
    CHECK_STR(gguf_tensor_find(g, "blk.0.attn_norm.weight")->quant->name, "F32");
    gguf_close(g);
}

TEST(mkmodel_writes_shards)
{
    CHECK_INT(mkmodel("--arch qwen2 --shards 3 -o m.gguf"), 0);
    struct gguf *g = open_model("m-00001-of-00003.gguf");
    CHECK_INT(gguf_n_shards(g), 3);
    CHECK_INT(gguf_n_tensors(g), 2 + 2 * 12);
    CHECK(!gguf_tensor_find(g, "output.weight")); /* tied */
    gguf_close(g);
}

TEST(mkmodel_reaches_a_size)
{
    CHECK_INT(mkmodel("--arch llama --type Q8_0 --size 20M -o m.gguf"), 0);
    struct gguf *g = open_model("m.gguf");
    CHECK(gguf_total_bytes(g) > 14u << 20 && gguf_total_bytes(g) < 21u << 20);
    gguf_close(g);
    CHECK_INT(mkmodel("--arch llama --size 1K -o m.gguf"), 2);
}

TEST(mkmodel_vocabulary_works)
{
    static const char text[] =
        "<|im_start|>user\nThe weather, na\xc3\xafve \xf0\x9f\x99\x82<|im_end|>";
    struct error e = {0};
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    struct detokenizer d;
    struct buf back;
    CHECK_INT(mkmodel("--arch llama --layers 1 --vocab 4000 -o m.gguf"), 0);
    struct gguf *g = open_model("m.gguf");
    CHECK_OK(tokenizer_new(&t, g, &e), &e);
    gguf_close(g);
    CHECK_INT(tokenizer_n_vocab(t), 4000);
    CHECK_INT(tokenizer_eos(t), 3999);
    CHECK_OK(tokenizer_encode(t, str_of(text), TOKENIZE_SPECIAL, &ids, &e), &e);
    CHECK_INT(ids.ids[0], 3998);
    CHECK_INT(ids.ids[ids.n - 1], 3999);
    CHECK(ids.n < sizeof(text) - 1 - 18); /* letters were merged */
    buf_init(&back, 1024);
    detokenizer_init(&d, t, true);
    for (size_t i = 0; i < ids.n; i++)
        CHECK_OK(detokenizer_push(&d, ids.ids[i], &back, &e), &e);
    CHECK_OK(detokenizer_finish(&d, &back, &e), &e);
    CHECK(str_equal_c(buf_str(&back), text));
    buf_release(&back);
    tokens_release(&ids);
    tokenizer_free(t);
}

TEST(mkmodel_takes_the_vocabulary_of_another_file)
{
    struct error e = {0};
    char path[4096];
    char arguments[4400];
    if (!test_golden("tok/vocab-smollm.gguf", path))
        SKIP("no golden vocabulary here");
    snprintf(arguments, sizeof(arguments), "--arch llama --layers 1 --vocab-from '%s' -o m.gguf",
             path);
    CHECK_INT(mkmodel(arguments), 0);
    struct gguf *g = open_model("m.gguf");
    struct gguf *from = open_model(path);
    struct gguf_value v;
    struct gguf_value want;
    CHECK(gguf_find(from, "tokenizer.ggml.tokens", &want));
    CHECK(gguf_find(g, "tokenizer.ggml.tokens", &v));
    CHECK(v.n_bytes == want.n_bytes && memcmp(v.bytes, want.bytes, v.n_bytes) == 0);
    uint32_t n_vocab = 0;
    CHECK_OK(gguf_u32(g, "llama.vocab_size", true, &n_vocab, &e), &e);
    CHECK_INT(n_vocab, want.count);
    gguf_close(from);
    gguf_close(g);
}

TEST(mkmodel_takes_the_template_of_another_file)
{
    struct error e = {0};
    char path[4096];
    char arguments[4400];
    struct str text;
    struct str want;
    if (!test_golden("models/qwen2.Q4_K_M.gguf", path))
        SKIP("no golden model with a template here");
    snprintf(arguments, sizeof(arguments),
             "--arch llama --layers 1 --chat-template-from '%s' -o m.gguf", path);
    CHECK_INT(mkmodel(arguments), 0);
    struct gguf *g = open_model("m.gguf");
    struct gguf *from = open_model(path);
    CHECK_OK(gguf_str(from, "tokenizer.chat_template", true, &want, &e), &e);
    CHECK_OK(gguf_str(g, "tokenizer.chat_template", true, &text, &e), &e);
    CHECK(str_equal(text, want));
    gguf_close(from);
    gguf_close(g);
}

TEST(mkmodel_refuses_what_it_cannot_do)
{
    CHECK_INT(mkmodel("--arch gpt5 -o m.gguf"), 2);
    CHECK_INT(mkmodel("--arch llama --type Q9_X -o m.gguf"), 2);
    CHECK_INT(mkmodel("--arch llama"), 2);
    CHECK_INT(mkmodel("--arch llama --heads 3 --kv-heads 2 -o m.gguf"), 2);
    CHECK_INT(mkmodel("--arch llama --vocab 100 -o m.gguf"), 2);
    CHECK_INT(mkmodel("--arch llama --vocab-from none.gguf -o m.gguf"), 3);
}

/* Every tensor of the one file is in the other with that shape and format. */
static void check_tensors_in(const struct gguf *g, const struct gguf *other)
{
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[80];
        snprintf(name, sizeof(name), "%.*s", (int)t->name.len, t->name.ptr);
        const struct gguf_tensor *o = gguf_tensor_find(other, name);
        if (!o || o->quant != t->quant || memcmp(o->ne, t->ne, sizeof(t->ne)) != 0)
            test_fail(__FILE__, __LINE__, "%s: %s in %s", name, o ? "different" : "missing",
                      gguf_shard_path(other, 0));
    }
}

/* Keys that say what the model is: of the same name and value. */
static void check_keys_in(const struct gguf *g, const struct gguf *other)
{
    for (size_t i = 0; i < gguf_n_keys(g); i++) {
        struct gguf_value v;
        struct gguf_value o;
        struct str key = gguf_key(g, i, &v);
        char name[80];
        snprintf(name, sizeof(name), "%.*s", (int)key.len, key.ptr);
        if (strncmp(name, "tokenizer.", 10) == 0 ||
            (strncmp(name, "general.", 8) == 0 && strcmp(name, "general.architecture") != 0))
            continue;
        if (!gguf_find(other, name, &o) || o.type != v.type || o.n_bytes != v.n_bytes ||
            memcmp(o.bytes, v.bytes, v.n_bytes) != 0)
            test_fail(__FILE__, __LINE__, "%s is not the same in %s", name,
                      gguf_shard_path(other, 0));
    }
}

/* The files of the reference, whose tensors come from llama.cpp's own converter and quantiser. */
TEST(mkmodel_writes_what_the_reference_has)
{
    static const struct {
        const char *golden, *options;
    } files[] = {
        {"kimi-k3.F32", "--arch kimi-k3 --layers 3 --ff 64 --mla-layers 2 --dense-layers 2"
                        " --experts 6 --used 2 --expert-ff 32 --shared 1"},
        {"kimi-k3-deep.BF16",
         "--arch kimi-k3 --embd 128 --heads 3 --ff 64 --mla-every 4 --type BF16 --experts 24"
         " --used 4 --expert-ff 32 --latent 32 --res-block 3 --q-lora 32"},
        {"kimi-linear.F32", "--arch kimi-linear --layers 3 --ff 64 --mla-layers 1 --expert-ff 32"},
        {"deepseek2.F32", "--arch deepseek2 --ff 64 --expert-ff 32"},
        {"qwen3moe.F32", "--arch qwen3moe --head-dim 32 --ff 256 --expert-ff 32"},
    };
    size_t n_found = 0;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char name[64];
        char path[4096];
        char arguments[512];
        snprintf(name, sizeof(name), "models/%s.gguf", files[i].golden);
        if (!test_golden(name, path))
            continue;
        snprintf(arguments, sizeof(arguments), "%s --vocab 320 -o m.gguf", files[i].options);
        CHECK_INT(mkmodel(arguments), 0);
        struct gguf *g = open_model("m.gguf");
        struct gguf *golden = open_model(path);
        check_tensors_in(g, golden);
        check_tensors_in(golden, g);
        check_keys_in(g, golden);
        check_keys_in(golden, g);
        gguf_close(golden);
        gguf_close(g);
        n_found++;
    }
    if (n_found == 0)
        SKIP("no golden model of these architectures here");
}

static bool has_tensor(const char *arguments, const char *name)
{
    CHECK_INT(mkmodel(arguments), 0);
    struct gguf *g = open_model("m.gguf");
    bool found = gguf_tensor_find(g, name) != NULL;
    gguf_close(g);
    return found;
}

TEST(mkmodel_writes_the_other_forms)
{
    CHECK(has_tensor("--arch deepseek2 --legacy -o m.gguf", "blk.0.attn_kv_b.weight"));
    CHECK(!has_tensor("--arch deepseek2 --legacy -o m.gguf", "blk.0.attn_k_b.weight"));
    CHECK(has_tensor("--arch deepseek2 --q-lora 0 -o m.gguf", "blk.0.attn_q.weight"));
    CHECK(!has_tensor("--arch deepseek2 --softmax -o m.gguf", "blk.2.exp_probs_b.bias"));
    CHECK(has_tensor("--arch llama --experts 4 -o m.gguf", "blk.0.ffn_gate_exps.weight"));
    CHECK(!has_tensor("--arch kimi-k3 --latent 0 -o m.gguf", "blk.1.ffn_routed_up.weight"));
    CHECK(!has_tensor("--arch kimi-k3 --shared 0 -o m.gguf", "blk.1.ffn_up_shexp.weight"));
}

TEST(mkmodel_writes_files_that_are_wrong_in_one_way)
{
    static const char name[] = "blk.1.ffn_norm.weight";
    struct error e = {0};
    uint32_t n = 0;
    CHECK(!has_tensor("--arch llama --omit blk.1.ffn_norm.weight -o m.gguf", name));
    CHECK(has_tensor("--arch llama --extra blk.0.nonsense -o m.gguf", "blk.0.nonsense"));
    CHECK_INT(mkmodel("--arch llama --misshape blk.1.ffn_norm.weight -o m.gguf"), 0);
    struct gguf *g = open_model("m.gguf");
    CHECK_INT(gguf_tensor_find(g, name)->ne[0], 257);
    gguf_close(g);
    CHECK_INT(mkmodel("--arch llama --poison blk.1.ffn_norm.weight --set-key llama.block_count=0"
                      " --omit-key llama.vocab_size -o m.gguf"),
              0);
    g = open_model("m.gguf");
    CHECK(isnan(tensor_rms(g, name)));
    CHECK_OK(gguf_u32(g, "llama.block_count", true, &n, &e), &e);
    CHECK_INT(n, 0);
    CHECK_ERROR(gguf_u32(g, "llama.vocab_size", true, &n, &e), &e, ERROR_FORMAT, "vocab_size");
    gguf_close(g);
}

/* A model of half a terabyte, on any disk. */
TEST(mkmodel_writes_holes)
{
    struct stat st;
    CHECK_INT(mkmodel("--like Kimi-K3 --type Q4_K --expert-type IQ1_S --sparse --shards 34"
                      " -o m.gguf"),
              0);
    struct gguf *g = open_model("m-00001-of-00034.gguf");
    CHECK_INT(gguf_n_shards(g), 34);
    CHECK_INT(gguf_n_tensors(g), 2573);
    CHECK_INT(gguf_tensor_find(g, "blk.92.ffn_down_exps.weight")->bytes, 896ull * 2150400);
    CHECK_STR(gguf_tensor_find(g, "blk.3.attn_k_b.weight")->quant->name, "Q5_0");
    CHECK(stat(gguf_shard_path(g, 33), &st) == 0);
    CHECK(st.st_size > (off_t)1 << 30 && st.st_blocks < 1 << 12);
    gguf_close(g);
}

static void read_embedding(const struct gguf *g, float *out, size_t n)
{
    struct error e = {0};
    struct file f;
    const struct gguf_tensor *t = gguf_tensor_find(g, "token_embd.weight");
    CHECK(t && t->quant == quant_by_name("F16") && t->ne[0] * t->ne[1] == n);
    uint8_t *bytes = mem_alloc((size_t)t->bytes);
    CHECK(bytes);
    CHECK_OK(file_open(&f, gguf_shard_path(g, t->shard), &e), &e);
    CHECK_OK(file_read_at(&f, bytes, (size_t)t->bytes, t->offset, &e), &e);
    t->quant->decode(bytes, out, n);
    file_close(&f);
    mem_free(bytes);
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* 4 topics of 1024 / 4 tokens, 4 values of each trait: id 0 and 1 differ in one of four traits. */
TEST(mkmodel_tokens_of_a_topic_are_kin)
{
    enum { VOCAB = 1024, WIDTH = 256 };
    float *x = mem_array((size_t)VOCAB * WIDTH, sizeof(*x));
    CHECK_INT(mkmodel("--arch qwen3 --type Q4_K --topics 4 -o a.gguf"), 0);
    struct gguf *g = open_model("a.gguf");
    CHECK(x);
    read_embedding(g, x, (size_t)VOCAB * WIDTH);
    const float *first = x, *near = x + WIDTH, *far = x + 255 * WIDTH, *other = x + 256 * WIDTH;
    CHECK(fabs(cosine(first, near, WIDTH) - (0.4 + 0.6 * 0.75)) < 0.15);
    CHECK(fabs(cosine(first, far, WIDTH) - (0.4)) < 0.2);
    CHECK(fabs(cosine(first, other, WIDTH) - (0.0)) < 0.2);
    gguf_close(g);
    mem_free(x);
}

/* The text is the same again, stays in the vocabulary, and mostly in a topic. */
TEST(mkmodel_writes_a_text_of_its_topics)
{
    uint8_t digest[2][32];
    struct error e = {0};
    struct buf text;
    CHECK_INT(mkmodel("--arch qwen3 --topics 4 --text a.ids --text-tokens 500 -o a.gguf"), 0);
    CHECK_INT(mkmodel("--arch qwen3 --topics 4 --text b.ids --text-tokens 500 -o b.gguf"), 0);
    hash_file("a.ids", digest[0]);
    hash_file("b.ids", digest[1]);
    CHECK(memcmp(digest[0], digest[1], 32) == 0);
    buf_init(&text, 1 << 20);
    CHECK_OK(file_read_all("a.ids", 1 << 20, &text, &e), &e);
    int n = 0, changes = 0;
    long last = -1;
    for (char *at = text.ptr; *at && *at != '\n'; n++) {
        const long id = strtol(at, &at, 10);
        CHECK(id >= 0 && id < 1024);
        changes += last >= 0 && id / 256 != last / 256;
        last = id;
        at += *at == ',';
    }
    CHECK_INT(n, 500);
    CHECK(changes <= 4);
    buf_release(&text);
    CHECK(mkmodel("--arch qwen3 --topics 1000 -o a.gguf") != 0); /* a token each */
    CHECK(mkmodel("--arch qwen3 --text a.ids -o a.gguf") != 0);
}

/* --size with a width: as many layers as it takes. */
TEST(mkmodel_makes_up_a_size_with_layers)
{
    CHECK_INT(mkmodel("--arch kimi-k3 --type Q8_0 --embd 256 --size 40M -o a.gguf"), 0);
    struct gguf *g = open_model("a.gguf");
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        bytes += gguf_tensor_at(g, i)->bytes;
    CHECK(bytes > 37u << 20 && bytes <= 40u << 20);
    gguf_close(g);
}
