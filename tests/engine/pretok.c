/* The pattern of kimi-k2 against its rules, written out. */
#include "engine/tokenizer/pretok.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "tests/test.h"

enum kind { LETTER, HAN, NUMBER, BLANK, NEWLINE, OTHER, END };

static const struct {
    uint32_t rune;
    enum kind kind;
} alphabet[] = {
    {'a', LETTER},   {'S', LETTER},    {'t', LETTER},    {'r', LETTER},    {'E', LETTER},
    {'l', LETTER},   {0xE9, LETTER},   {0x17F, LETTER},  {0x3042, LETTER}, {0x4E2D, HAN},
    {0x3400, HAN},   {0xF900, HAN},    {0x20000, HAN},   {0x2FA1D, HAN},   {'7', NUMBER},
    {0xB2, NUMBER},  {0x0967, NUMBER}, {' ', BLANK},     {' ', BLANK},     {'\t', BLANK},
    {0x3000, BLANK}, {'\n', NEWLINE},  {'\r', NEWLINE},  {'\'', OTHER},    {'\'', OTHER},
    {'.', OTHER},    {0x301, OTHER},   {0x1F600, OTHER}, {0, OTHER},       {0x180E, OTHER},
};

#define RUNES 40

struct line {
    uint32_t rune[RUNES + 1];
    enum kind kind[RUNES + 1]; /* END behind the last */
    size_t n;
};

static size_t run_of(const struct line *s, size_t at, enum kind a, enum kind b)
{
    size_t end = at;
    while (s->kind[end] == a || s->kind[end] == b)
        end++;
    return end;
}

static uint32_t lower(uint32_t rune)
{
    return rune >= 'A' && rune <= 'Z' ? rune + 32 : rune;
}

/* The end of a contraction at `at`, or `at`. */
static size_t contraction(const struct line *s, size_t at)
{
    if (s->rune[at] != '\'' || at + 1 >= s->n)
        return at;
    uint32_t one = lower(s->rune[at + 1]);
    uint32_t two = at + 2 < s->n ? lower(s->rune[at + 2]) : 0;
    if (one == 's' || one == 't' || one == 'm' || one == 'd')
        return at + 2;
    bool pair =
        (one == 'r' && two == 'e') || (one == 'v' && two == 'e') || (one == 'l' && two == 'l');
    return pair ? at + 3 : at;
}

/* Blanks: up to the last newline, else all but the one that leads what follows. */
static size_t blanks(const struct line *s, size_t at)
{
    size_t end = run_of(s, at, BLANK, NEWLINE);
    for (size_t i = end; i > at; i--) {
        if (s->kind[i - 1] == NEWLINE)
            return i;
    }
    return end - at > 1 && end < s->n ? end - 1 : end;
}

/* Where the word of kimi-k2 that starts at `at` ends, by the rules in their order. */
static size_t kimi_word(const struct line *s, size_t at)
{
    enum kind kind = s->kind[at];
    if (kind == HAN)
        return run_of(s, at, HAN, HAN);
    bool leads = kind == OTHER || kind == BLANK;
    if (kind == LETTER || (leads && s->kind[at + 1] == LETTER))
        return contraction(s, run_of(s, at + leads, LETTER, LETTER));
    if (kind == NUMBER)
        return MIN_OF(run_of(s, at, NUMBER, NUMBER), at + 3);
    size_t signs = at + (s->rune[at] == ' ');
    if (s->kind[signs] == OTHER)
        return run_of(s, run_of(s, signs, OTHER, OTHER), NEWLINE, NEWLINE);
    return blanks(s, at);
}

struct expected {
    const struct line *line;
    size_t at;
};

static int expect_word(void *ctx, struct str word, struct error *e)
{
    struct expected *x = ctx;
    size_t end = kimi_word(x->line, x->at);
    char text[RUNES * 4];
    size_t len = 0;
    (void)e;
    for (; x->at < end; x->at++)
        len += str_utf8_put(x->line->rune[x->at], text + len);
    if (!str_equal(word, str_slice(text, len)))
        test_fail(__FILE__, __LINE__, "word \"%.*s\", want \"%.*s\"", (int)word.len, word.ptr,
                  (int)len, text);
    return 0;
}

TEST(pretok_kimi_k2_follows_the_written_rules)
{
    struct error e = {0};
    struct pretok *p;
    struct pretok_run *run;
    uint64_t index = 0;
    CHECK_OK(pretok_new(&p, str_of("kimi-k2"), &e), &e);
    CHECK_OK(pretok_run_new(&run, p, &e), &e);
    for (int round = 0; round < 20000; round++) {
        struct line line = {.n = 1 + (size_t)round % RUNES};
        char text[RUNES * 4];
        size_t len = 0;
        for (size_t i = 0; i < line.n; i++) {
            size_t which = (size_t)(rng_u64(11, index++) >> 20) % ARRAY_LEN(alphabet);
            line.rune[i] = alphabet[which].rune;
            line.kind[i] = alphabet[which].kind;
            len += str_utf8_put(line.rune[i], text + len);
        }
        line.kind[line.n] = END;
        struct expected x = {.line = &line};
        CHECK_OK(pretok_words(run, str_slice(text, len), expect_word, &x, &e), &e);
        CHECK_INT(x.at, line.n);
    }
    pretok_run_free(run);
    pretok_free(p);
}
