/* A vocabulary of kimi-k2 without merges: ids are ranks, as in its tiktoken file. */
#include "base/compiler.h"
#include "base/rng.h"
#include "engine/gguf/write.h"
#include "engine/tokenizer/bytemap.h"
#include "tests/engine/tokenizer_kit.h"
#include "tests/test.h"

#define BYTES 256
#define LONGEST 20
static const char *const made[] = {"ab", "bc",  "abc", "ca",  "cab",  "abab",  "bca", "cc",
                                   "aa", "aab", "baa", "ccc", "abca", "<end>", "dd"};
#define MADE ((int32_t)ARRAY_LEN(made))

static struct tokenizer *ranked_tokenizer(void)
{
    struct error e = {0};
    struct gguf_writer *w;
    struct str token[BYTES + ARRAY_LEN(made)];
    int32_t type[BYTES + ARRAY_LEN(made)];
    char text[BYTES][4];
    for (int32_t i = 0; i < BYTES + MADE; i++) {
        type[i] = i == BYTES + MADE - 2 ? 3 : i == BYTES + MADE - 1 ? 5 : 1;
        token[i] = i < BYTES ? str_slice(text[i], str_utf8_put(bytemap_rune((uint8_t)i), text[i]))
                             : str_of(made[i - BYTES]);
    }
    CHECK_OK(gguf_writer_new(&w, "ranked.gguf", 0, &e), &e);
    gguf_put_str(w, "general.architecture", str_of("llama"));
    gguf_put_str(w, "tokenizer.ggml.model", str_of("gpt2"));
    gguf_put_str(w, "tokenizer.ggml.pre", str_of("kimi-k2"));
    gguf_put_strs(w, "tokenizer.ggml.tokens", token, ARRAY_LEN(token));
    gguf_put_i32s(w, "tokenizer.ggml.token_type", type, ARRAY_LEN(type));
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);
    return kit_tokenizer("ranked.gguf");
}

/* The rank of this token; MADE: it is none (control and unused ones do not count). */
static int32_t rank_of(struct str text)
{
    int32_t i = 0;
    while (i < MADE - 2 && !str_equal_c(text, made[i]))
        i++;
    return i < MADE - 2 ? i : MADE;
}

/*
 * The rule as written: join the neighbours whose concatenation has the lowest rank, leftmost first,
 * until there are none. Parts are word[start[i] .. start[i + 1]); returns how many.
 */
static int join(struct str word, size_t start[LONGEST + 1])
{
    int n = (int)word.len;
    for (int i = 0; i <= n; i++)
        start[i] = (size_t)i;
    for (;;) {
        int best = -1;
        int32_t best_rank = MADE;
        for (int i = 0; i + 1 < n; i++) {
            int32_t rank = rank_of(str_slice(word.ptr + start[i], start[i + 2] - start[i]));
            if (rank < best_rank) {
                best_rank = rank;
                best = i;
            }
        }
        if (best < 0)
            return n;
        memmove(&start[best + 1], &start[best + 2], (size_t)(n - best - 1) * sizeof *start);
        n--;
    }
}

static void check_word(const struct tokenizer *t, struct str word)
{
    struct error e = {0};
    struct tokens got = {0};
    size_t start[LONGEST + 1];
    CHECK_OK(tokenizer_encode(t, word, 0, &got, &e), &e);
    int n = join(word, start);
    if (rank_of(word) < MADE) {
        start[1] = word.len; /* a word that is a token is not taken apart first */
        n = 1;
    }
    CHECK_INT(got.n, n);
    for (int i = 0; i < n; i++) {
        struct str part = str_slice(word.ptr + start[i], start[i + 1] - start[i]);
        CHECK_INT(got.ids[i], tokenizer_find(t, part));
    }
    tokens_release(&got);
}

TEST(tokenizer_without_merges_joins_by_rank)
{
    struct tokenizer *t = ranked_tokenizer();
    uint64_t index = 0;
    for (size_t round = 0; round < 20000; round++) {
        char word[LONGEST];
        size_t len = 1 + round % LONGEST;
        for (size_t i = 0; i < len; i++)
            word[i] = "abcd"[(rng_u64(5, index++) >> 30) % 4];
        check_word(t, str_slice(word, len));
    }
    tokenizer_free(t);
}
