/* Ids, special tokens and text of llama.cpp for the same vocabularies. */
#include "base/alloc.h"
#include "tests/engine/tokenizer_kit.h"
#include "tests/test.h"

static bool in_array(const cJSON *array, int value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        if (item->valueint == value)
            return true;
    }
    return false;
}

static void check_info(const struct tokenizer *t, const cJSON *info)
{
    const cJSON *eog = cJSON_GetObjectItem(info, "eog");
    CHECK_INT(tokenizer_n_vocab(t), cJSON_GetObjectItem(info, "n_tokens")->valueint);
    CHECK_INT(tokenizer_bos(t), cJSON_GetObjectItem(info, "bos")->valueint);
    CHECK_INT(tokenizer_eos(t), cJSON_GetObjectItem(info, "eos")->valueint);
    CHECK_INT(tokenizer_add_bos(t), cJSON_GetObjectItem(info, "add_bos")->valueint);
    for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
        if (tokenizer_is_eog(t, id) != in_array(eog, id))
            test_fail(__FILE__, __LINE__, "token %d: ends a generation here: %d", id,
                      tokenizer_is_eog(t, id));
    }
}

static void check_roundtrip(const struct tokenizer *t, struct str text)
{
    struct error e = {0};
    struct tokens ids = {0};
    struct buf back;
    buf_init(&back, 1 << 20);
    CHECK_OK(tokenizer_encode(t, text, 0, &ids, &e), &e);
    kit_decode(t, &ids, false, &back);
    if (!str_equal(buf_str(&back), text))
        test_fail(__FILE__, __LINE__, "\"%.*s\" came back as \"%.*s\"", (int)text.len, text.ptr,
                  (int)back.len, back.ptr);
    buf_release(&back);
    tokens_release(&ids);
}

static void check_vocabulary(const char *vocabulary, const cJSON *golden)
{
    struct tokenizer *t = kit_tokenizer(vocabulary);
    check_info(t, cJSON_GetObjectItem(golden, "info"));
    int n = 0;
    const cJSON *test;
    cJSON_ArrayForEach(test, cJSON_GetObjectItem(golden, "tests"))
    {
        struct str text = str_of(cJSON_GetObjectItem(test, "text")->valuestring);
        kit_check_ids(t, text, TOKENIZE_SPECIAL, cJSON_GetObjectItem(test, "ids_parse_special"));
        kit_check_ids(t, text, 0, cJSON_GetObjectItem(test, "ids_plain"));
        if (cJSON_IsTrue(cJSON_GetObjectItem(test, "roundtrip")))
            check_roundtrip(t, text);
        n++;
    }
    CHECK_INT(n, 51);
    tokenizer_free(t);
}

static void check_golden(const char *name)
{
    char file[64];
    char json[4096];
    char vocabulary[4096];
    snprintf(file, sizeof file, "tok/%s.json", name);
    if (!test_golden(file, json))
        SKIP("no golden %s", file);
    snprintf(file, sizeof file, "tok/vocab-%s.gguf", name);
    CHECK(test_golden(file, vocabulary));
    cJSON *golden = kit_json(json);
    check_vocabulary(vocabulary, golden);
    cJSON_Delete(golden);
}

TEST(tokenizer_golden_gpt_2)
{
    check_golden("gpt-2");
}

TEST(tokenizer_golden_smollm)
{
    check_golden("smollm");
}

TEST(tokenizer_golden_llama_bpe)
{
    check_golden("llama-bpe");
}

TEST(tokenizer_golden_qwen2)
{
    check_golden("qwen2");
}

TEST(tokenizer_golden_qwen35)
{
    check_golden("qwen35");
}

TEST(tokenizer_golden_kimi_k2)
{
    check_golden("kimi-k2");
}

TEST(tokenizer_golden_deepseek_v3)
{
    check_golden("deepseek-v3");
}

TEST(tokenizer_golden_deepseek_llm)
{
    check_golden("deepseek-llm");
}

TEST(tokenizer_golden_default)
{
    check_golden("default");
}

TEST(tokenizer_golden_sentencepiece)
{
    check_golden("spm");
}

/* Real vocabularies, too large to ship: llama.cpp's source package has them. */
static void check_real(const char *name)
{
    char file[64];
    char json[4096];
    char vocabulary[4096];
    snprintf(file, sizeof file, "tok/real-%s.json", name);
    if (!test_golden(file, json))
        SKIP("no golden %s", file);
    cJSON *golden = kit_json(json);
    const char *name_there = cJSON_GetObjectItem(golden, "file")->valuestring;
    if (!kit_vocabulary(name_there, vocabulary))
        SKIP("no %s: set NOCTURNE_VOCABS to the folder of llama.cpp's vocabularies", name_there);
    check_vocabulary(vocabulary, golden);
    cJSON_Delete(golden);
}

LONG_TEST(tokenizer_real_gpt_2)
{
    check_real("gpt-2");
}

LONG_TEST(tokenizer_real_smollm2)
{
    check_real("smollm2");
}

LONG_TEST(tokenizer_real_mpt)
{
    check_real("mpt");
}

LONG_TEST(tokenizer_real_starcoder)
{
    check_real("starcoder");
}

LONG_TEST(tokenizer_real_refact)
{
    check_real("refact");
}

LONG_TEST(tokenizer_real_command_r)
{
    check_real("command-r");
}

LONG_TEST(tokenizer_real_llama_bpe)
{
    check_real("llama-bpe");
}

LONG_TEST(tokenizer_real_qwen2)
{
    check_real("qwen2");
}

LONG_TEST(tokenizer_real_qwen35)
{
    check_real("qwen35");
}

LONG_TEST(tokenizer_real_deepseek_llm)
{
    check_real("deepseek-llm");
}

LONG_TEST(tokenizer_real_llama_spm)
{
    check_real("llama-spm");
}
