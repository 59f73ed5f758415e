/* What holds for any text and any vocabulary. */
#include "engine/tokenizer/tokenizer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/gguf/write.h"
#include "tests/engine/tokenizer_kit.h"
#include "tests/test.h"

static const char *const vocabularies[] = {"vocab-gpt-2.gguf",       "vocab-smollm.gguf",
                                           "vocab-llama-bpe.gguf",   "vocab-qwen2.gguf",
                                           "vocab-default.gguf",     "vocab-spm.gguf",
                                           "vocab-qwen35.gguf",      "vocab-kimi-k2.gguf",
                                           "vocab-deepseek-v3.gguf", "vocab-deepseek-llm.gguf"};

static void check_comes_back(const struct tokenizer *t, struct str text)
{
    struct error e = {0};
    struct tokens ids = {0};
    struct buf back;
    buf_init(&back, 1 << 24);
    CHECK_OK(tokenizer_encode(t, text, 0, &ids, &e), &e);
    kit_decode(t, &ids, false, &back);
    if (!str_equal(buf_str(&back), text))
        test_fail(__FILE__, __LINE__, "%s: %zu bytes came back as %zu: \"%.80s\"", tokenizer_pre(t),
                  text.len, back.len, text.ptr);
    buf_release(&back);
    tokens_release(&ids);
}

/* Mostly what patterns tell apart, sometimes anything but U+2581, SentencePiece's space. */
static uint32_t random_rune(uint64_t index)
{
    static const uint32_t usual[] = {
        ' ',   ' ',    '\n',   '\r',    '\t',   '\'',   's',   'L',    'a',     '7',
        '.',   '<',    '|',    0x85,    0xA0,   0xB2,   0x17F, 0x180E, 0x2028,  0x3000,
        0x301, 0x4E2D, 0x0967, 0x1F600, 0x200D, 0xFEFF, 0,     0x7F,   0x10FFFF};
    uint32_t any = (uint32_t)(rng_u64(7, index) >> 20);
    if (any % 4 != 0)
        return usual[any / 4 % ARRAY_LEN(usual)];
    uint32_t rune = any / 4 % 0x110000u;
    return rune == 0x2581 ? 'x' : rune;
}

TEST(tokenizer_text_comes_back)
{
    uint64_t index = 0;
    for (size_t v = 0; v < ARRAY_LEN(vocabularies); v++) {
        struct tokenizer *t = kit_golden_tokenizer(vocabularies[v]);
        for (int round = 0; round < 300; round++) {
            char text[64 * 4];
            size_t len = 0;
            for (int i = 0; i <= round % 64; i++)
                len += str_utf8_put(random_rune(index++), text + len);
            check_comes_back(t, str_slice(text, len));
        }
        tokenizer_free(t);
    }
}

static int64_t check_long(const struct tokenizer *t, const char *unit, size_t n_bytes)
{
    size_t unit_len = strlen(unit);
    char *text = mem_alloc(n_bytes + 1);
    CHECK(text != NULL);
    for (size_t i = 0; i < n_bytes; i++)
        text[i] = unit[i % unit_len];
    text[n_bytes] = '\0';
    int64_t start = clock_mono_us();
    check_comes_back(t, str_slice(text, n_bytes));
    int64_t took_us = clock_mono_us() - start;
    mem_free(text);
    return took_us;
}

/* One word of a million bytes, a million words: what is quadratic would run into the alarm. */
TEST(tokenizer_long_runs_are_not_quadratic)
{
    int64_t worst_us = 0;
    static const char *const units[] = {"a", " ", "\n", "1", "-", " a", "\n ", "<|", "ab1 .\n"};
    for (size_t v = 0; v < ARRAY_LEN(vocabularies); v++) {
        struct tokenizer *t = kit_golden_tokenizer(vocabularies[v]);
        for (size_t i = 0; i < ARRAY_LEN(units); i++)
            worst_us = MAX_OF(worst_us, check_long(t, units[i], i < 2 ? 1000000 : 100000));
        tokenizer_free(t);
    }
    test_note("worst megabyte there and back: %lld ms", (long long)(worst_us / 1000));
}

TEST(tokenizer_invalid_utf8_is_replaced_byte_by_byte)
{
    static const char broken[] = "a\xFF"
                                 "b\xC3(\xE2\x82 \xED\xA0\x80\xF0\x9F\x98";
    static const char mended[] = "a\uFFFDb\uFFFD(\uFFFD\uFFFD \uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD";
    for (size_t v = 0; v < ARRAY_LEN(vocabularies); v++) {
        struct error e = {0};
        struct tokens a = {0};
        struct tokens b = {0};
        struct tokenizer *t = kit_golden_tokenizer(vocabularies[v]);
        CHECK_OK(tokenizer_encode(t, str_of(broken), 0, &a, &e), &e);
        CHECK_OK(tokenizer_encode(t, str_of(mended), 0, &b, &e), &e);
        CHECK_INT(a.n, b.n);
        CHECK(memcmp(a.ids, b.ids, a.n * sizeof *a.ids) == 0);
        tokens_release(&a);
        tokens_release(&b);
        tokenizer_free(t);
    }
}

TEST(tokenizer_special_text_stays_text_unless_asked)
{
    struct error e = {0};
    struct tokens plain = {0};
    struct tokens parsed = {0};
    struct str text = str_of("<|im_start|>user\n<think><|im_end|>");
    struct tokenizer *t = kit_golden_tokenizer("vocab-qwen2.gguf");
    int32_t start = tokenizer_find(t, str_of("<|im_start|>"));
    int32_t end = tokenizer_find(t, str_of("<|im_end|>"));
    CHECK(start >= 0 && end >= 0);
    CHECK_OK(tokenizer_encode(t, text, 0, &plain, &e), &e);
    for (size_t i = 0; i < plain.n; i++)
        CHECK(plain.ids[i] != start && plain.ids[i] != end);
    CHECK_OK(tokenizer_encode(t, text, TOKENIZE_SPECIAL, &parsed, &e), &e);
    CHECK_INT(parsed.ids[0], start);
    CHECK_INT(parsed.ids[parsed.n - 1], end);
    tokens_release(&plain);
    tokens_release(&parsed);
    tokenizer_free(t);
}

TEST(tokenizer_bos_comes_first_if_asked_and_wanted)
{
    struct error e = {0};
    struct tokens with = {0};
    struct tokens without = {0};
    struct tokenizer *llama = kit_golden_tokenizer("vocab-llama-bpe.gguf");
    struct tokenizer *qwen = kit_golden_tokenizer("vocab-qwen2.gguf");
    CHECK_OK(tokenizer_encode(llama, str_of(""), TOKENIZE_BOS, &with, &e), &e);
    CHECK_OK(tokenizer_encode(qwen, str_of(""), TOKENIZE_BOS, &without, &e), &e);
    CHECK_INT(with.n, 1);
    CHECK_INT(with.ids[0], tokenizer_bos(llama));
    CHECK_INT(without.n, 0);
    tokens_release(&with);
    tokenizer_free(llama);
    tokenizer_free(qwen);
}

/* The ids of single bytes, as byte-level vocabularies have them for all but the rarest bytes. */
static void push_bytes(struct detokenizer *d, const char *bytes, size_t n, struct buf *out)
{
    struct error e = {0};
    for (size_t i = 0; i < n; i++) {
        struct tokens id = {0};
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)(uint8_t)bytes[i]);
        CHECK_INT(tokens_push(&id, tokenizer_find(d->t, str_of(name)), &e), 0);
        CHECK_OK(detokenizer_push(d, id.ids[0], out, &e), &e);
        tokens_release(&id);
    }
}

TEST(detokenizer_holds_back_every_cut_character)
{
    static const char *const characters[] = {"\u00E9", "\u20AC", "\U0001F600"};
    struct error e = {0};
    struct tokenizer *t = kit_golden_tokenizer("vocab-spm.gguf");
    for (size_t c = 0; c < ARRAY_LEN(characters); c++) {
        size_t len = strlen(characters[c]);
        for (size_t cut = 1; cut <= len; cut++) {
            struct detokenizer d;
            struct buf out;
            buf_init(&out, 64);
            detokenizer_init(&d, t, false);
            push_bytes(&d, characters[c], cut, &out);
            CHECK_INT(out.len, cut == len ? len : 0);
            push_bytes(&d, "a", 1, &out); /* a cut one becomes a single U+FFFD */
            CHECK_STR(out.ptr + out.len - 1, "a");
            CHECK_INT(out.len, (cut == len ? len : 3) + 1);
            push_bytes(&d, characters[c], cut, &out);
            CHECK_OK(detokenizer_finish(&d, &out, &e), &e);
            CHECK_INT(out.len, 2 * (cut == len ? len : 3) + 1);
            CHECK(str_utf8_valid(buf_str(&out), NULL));
            buf_release(&out);
        }
    }
    tokenizer_free(t);
}

TEST(detokenizer_replaces_what_never_becomes_a_character)
{
    struct error e = {0};
    struct detokenizer d;
    struct buf out;
    struct tokenizer *t = kit_golden_tokenizer("vocab-spm.gguf");
    buf_init(&out, 64);
    detokenizer_init(&d, t, false);
    push_bytes(&d, "\x80\xE2\x82\xE2\x82\xAC\xFF", 7, &out);
    CHECK_OK(detokenizer_finish(&d, &out, &e), &e);
    CHECK_STR(out.ptr, "\uFFFD\uFFFD\u20AC\uFFFD");
    CHECK_ERROR(detokenizer_push(&d, tokenizer_n_vocab(t), &out, &e), &e, ERROR_INVALID,
                "token 896");
    CHECK_ERROR(detokenizer_push(&d, -1, &out, &e), &e, ERROR_INVALID, "token -1");
    buf_release(&out);
    tokenizer_free(t);
}

TEST(detokenizer_drops_one_space_at_the_start)
{
    struct error e = {0};
    struct buf out;
    struct tokens ids = {0};
    struct tokenizer *t = kit_golden_tokenizer("vocab-spm.gguf");
    buf_init(&out, 64);
    CHECK_OK(tokenizer_encode(t, str_of("  a b"), TOKENIZE_BOS, &ids, &e), &e);
    kit_decode(t, &ids, false, &out);
    CHECK_STR(out.ptr, "  a b");
    buf_release(&out);
    tokens_release(&ids);
    tokenizer_free(t);
}

TEST(tokenizer_survives_allocation_failures)
{
    static const char *const names[] = {"tok/vocab-llama-bpe.gguf", "tok/vocab-spm.gguf"};
    static const char text[] = "caf\xC3\xA9 \xFF <|eot_id|> 12345 the The\n\n";
    struct error e = {0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[4096];
        struct gguf *g;
        struct tokenizer *t = NULL;
        struct tokens ids = {0};
        if (!test_golden(names[i], path))
            SKIP("no golden %s", names[i]);
        CHECK_OK(gguf_open(&g, path, &e), &e);
        int rc = -1;
        for (long k = 1; rc != 0; k++) {
            mem_fail_after(k);
            rc = tokenizer_new(&t, g, &e);
            mem_fail_after(0);
            CHECK(rc == 0 || (rc == -ERROR_NOMEM && e.text[0]));
        }
        gguf_close(g); /* it lives on without the file */
        rc = -1;
        for (long k = 1; rc != 0; k++) {
            CHECK_INT(ids.n, 0);
            mem_fail_after(k);
            rc = tokenizer_encode(t, str_of(text), TOKENIZE_SPECIAL, &ids, &e);
            mem_fail_after(0);
            CHECK(rc == 0 || rc == -ERROR_NOMEM);
        }
        CHECK(ids.n > 5);
        CHECK(tokenizer_memory_bytes(t) > 10000);
        tokens_release(&ids);
        tokenizer_free(t);
    }
}
