/* Vocabularies that break a rule, each beside a sound one. */
#include "base/alloc.h"
#include "engine/gguf/write.h"
#include "tests/engine/tokenizer_kit.h"
#include "tests/test.h"

#define TOKENS 5

/* What the file gets; zero and NULL leave a key out. */
struct vocabulary {
    const char *model;
    const char *pre;
    const char *tokens[TOKENS];
    const char *merges[2];
    int32_t types[TOKENS];
    uint32_t bos;
    bool no_merges, scores, add_bos, odd_types;
};

static const struct vocabulary sound = {.model = "gpt2",
                                        .pre = "gpt-2",
                                        .tokens = {"a", "b", "ab", "<s>", "<user>"},
                                        .types = {1, 1, 1, 3, 4},
                                        .merges = {"a b", "ab a"}};

static void put_strings(struct gguf_writer *w, const char *key, const char *const *list, size_t n)
{
    struct str text[TOKENS];
    for (size_t i = 0; i < n; i++)
        text[i] = str_of(list[i]);
    gguf_put_strs(w, key, text, n);
}

static void write_vocabulary(const struct vocabulary *v, const char *path)
{
    static const float scores[TOKENS] = {0, 0, -1, 0, 0};
    struct error e = {0};
    struct gguf_writer *w;
    CHECK_OK(gguf_writer_new(&w, path, 0, &e), &e);
    gguf_put_str(w, "general.architecture", str_of("llama"));
    if (v->model)
        gguf_put_str(w, "tokenizer.ggml.model", str_of(v->model));
    if (v->pre)
        gguf_put_str(w, "tokenizer.ggml.pre", str_of(v->pre));
    if (v->tokens[0])
        put_strings(w, "tokenizer.ggml.tokens", v->tokens, TOKENS);
    if (v->odd_types)
        put_strings(w, "tokenizer.ggml.token_type", v->tokens, TOKENS);
    else
        gguf_put_i32s(w, "tokenizer.ggml.token_type", v->types, TOKENS);
    if (!v->no_merges)
        put_strings(w, "tokenizer.ggml.merges", v->merges, 2);
    if (v->scores)
        gguf_put_f32s(w, "tokenizer.ggml.scores", scores, TOKENS);
    if (v->bos)
        gguf_put_u32(w, "tokenizer.ggml.bos_token_id", v->bos);
    if (v->add_bos)
        gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);
}

static int load(const struct vocabulary *v, struct tokenizer **ret, struct error *e)
{
    struct gguf *g;
    write_vocabulary(v, "v.gguf");
    CHECK_OK(gguf_open(&g, "v.gguf", e), e);
    int rc = tokenizer_new(ret, g, e);
    gguf_close(g);
    return rc;
}

static void check_encodes(const struct vocabulary *v, const char *text, const int32_t *want,
                          size_t n)
{
    struct error e = {0};
    struct tokenizer *t;
    struct tokens got = {0};
    CHECK_OK(load(v, &t, &e), &e);
    CHECK_OK(tokenizer_encode(t, str_of(text), 0, &got, &e), &e);
    CHECK_INT(got.n, n);
    for (size_t i = 0; i < n; i++)
        CHECK_INT(got.ids[i], want[i]);
    tokens_release(&got);
    tokenizer_free(t);
}

TEST(tokenizer_sound_vocabulary_loads)
{
    /* "aba" is a piece of the merges and no token: it goes out byte by byte. */
    check_encodes(&sound, "ab<user><s>aba", (const int32_t[]){2, 4, 0, 1, 0}, 5);
}

TEST(tokenizer_first_of_equal_texts_counts)
{
    struct vocabulary v = sound;
    v.tokens[3] = "ab";
    v.types[3] = 1;
    check_encodes(&v, "ab", (const int32_t[]){2}, 1);
}

TEST(tokenizer_refuses_unsound_sentencepiece)
{
    struct vocabulary v = {.model = "llama",
                           .tokens = {"a", "b", "ab", "<0x0A>", "\xE2\x96\x81"},
                           .types = {1, 1, 1, 6, 1},
                           .scores = true,
                           .no_merges = true};
    struct error e = {0};
    struct tokenizer *t;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "BOS");
    v.bos = 1;
    CHECK_OK(load(&v, &t, &e), &e);
    tokenizer_free(t);
    v.tokens[3] = "<0x0a>";
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "token 3 is a byte");
    v.scores = false;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "tokenizer.ggml.scores");
}

TEST(tokenizer_refuses_unsound_vocabularies)
{
    struct error e = {0};
    struct tokenizer *t;
    struct vocabulary v = sound;
    v.model = NULL;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "tokenizer.ggml.model");
    v.model = "bert";
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_UNSUPPORTED, "'bert'");
    v = sound;
    v.pre = "gpt-9";
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_UNSUPPORTED, "'gpt-9'");
    v = sound;
    v.tokens[0] = NULL;
    v.types[0] = 0;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "tokenizer.ggml.tokens");
    v = sound;
    v.no_merges = true;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "tokenizer.ggml.merges");
    v = sound;
    v.merges[1] = "ab";
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "merge 1");
    v.merges[1] = "ab ";
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "merge 1");
    v = sound;
    v.types[2] = 7;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "token 2 has type 7");
    v = sound;
    v.odd_types = true;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "tokenizer.ggml.token_type");
    v = sound;
    v.add_bos = true;
    CHECK_ERROR(load(&v, &t, &e), &e, ERROR_FORMAT, "BOS");
}

TEST(tokenizer_without_a_pre_tokeniser_takes_the_default_one)
{
    struct error e = {0};
    struct tokenizer *t;
    struct vocabulary v = sound;
    v.pre = NULL;
    CHECK_OK(load(&v, &t, &e), &e);
    CHECK_STR(tokenizer_pre(t), "default");
    tokenizer_free(t);
}
