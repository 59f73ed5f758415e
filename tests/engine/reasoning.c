/* Thoughts and answers taken apart: every kind of format, every place where an output may be cut. */
#include "engine/chat/reasoning.h"

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/rng.h"
#include "engine/chat/internal.h"
#include "tests/engine/tokenizer_kit.h"
#include "tests/test.h"

#define R1 "deepseek-r1"
#define THINK "<|open|>think<|sep|>"
#define END_THINK "<|close|>think<|sep|>"
#define RESPONSE "<|open|>response<|sep|>"
#define END_RESPONSE "<|close|>response<|sep|>"
#define END_MESSAGE "<|close|>message<|sep|>"

static const char *const no_specials[] = {"<|end|>", NULL};
static const char *const tag_specials[] = {"<|end|>", "<think>", "</think>", NULL};

/* One output that is being read. */
struct reading {
    struct tokenizer *t;
    struct reasoner *how;
    struct reasoning r;
    struct detokenizer d;
    struct buf answer;
    size_t certain; /* of the thought, at the last token */
};

static const struct chat_format *format_of(const char *name)
{
    struct error e = {0};
    const struct chat_format *f = chat_format_of(name);
    if (!f)
        CHECK_OK(chat_format_find(&f, NULL, name, &e), &e);
    return f;
}

static void start(struct reading *x, const char *format, struct tokenizer *t, bool think,
                  uint32_t budget)
{
    struct error e = {0};
    *x = (struct reading){.t = t};
    CHECK_OK(reasoner_new(&x->how, format_of(format), t, &e), &e);
    CHECK(x->how != NULL);
    detokenizer_init(&x->d, t, false);
    buf_init(&x->answer, 1 << 20);
    reasoning_begin(&x->r, x->how, think, budget);
}

static void stop(struct reading *x)
{
    reasoning_release(&x->r);
    reasoner_free(x->how);
    buf_release(&x->answer);
}

/* What was certain stays as it was. */
static void push(struct reading *x, int32_t token)
{
    struct error e = {0};
    char before[512];
    size_t n = reasoning_certain(&x->r);
    CHECK(n <= sizeof before && n >= x->certain);
    if (n > 0)
        memcpy(before, x->r.thought.ptr, n);
    size_t said = x->answer.len;
    CHECK_OK(reasoning_push(&x->r, &x->d, token, &x->answer, &e), &e);
    CHECK(reasoning_certain(&x->r) >= n && x->answer.len >= said);
    CHECK(n == 0 || memcmp(x->r.thought.ptr, before, n) == 0);
    x->certain = reasoning_certain(&x->r);
}

static void finish(struct reading *x)
{
    struct error e = {0};
    CHECK_OK(reasoning_finish(&x->r, &x->d, &x->answer, &e), &e);
}

static void spell(const struct tokenizer *t, const char *text, struct tokens *out)
{
    struct error e = {0};
    CHECK_OK(tokenizer_encode(t, str_of(text), TOKENIZE_SPECIAL, out, &e), &e);
}

static const struct output {
    const char *format;
    const char *const *specials;
    bool think;
    const char *text; /* as the model writes it, behind the prompt */
    const char *thought, *answer;
    uint32_t n_answer; /* tokens that are not the thought's; of a byte each */
} outputs[] = {
    {"kimi-k3", kit_kimi_k3, true, "hm\n" END_THINK RESPONSE "\nyes" END_RESPONSE END_MESSAGE,
     "hm\n", "\nyes", 4 + 10 + 9},
    {"kimi-k3", kit_kimi_k3, true, "hm" RESPONSE "yes" END_MESSAGE, "hm", "yes", 3 + 9},
    {"kimi-k3", kit_kimi_k3, true, END_THINK "yes", "", "yes", 3},
    {"kimi-k3", kit_kimi_k3, true, "a<|close|>thin<|sep|>b" END_THINK RESPONSE "c<|open|>d",
     "athinb", "cd", 3},
    {"kimi-k3", kit_kimi_k3, true, "x" END_THINK RESPONSE "y<|open|>tools<|sep|>lost", "x", "y",
     1 + 7 + 4},
    {"kimi-k3", kit_kimi_k3, false, "yes" END_RESPONSE END_MESSAGE, "", "yes", 3 + 10 + 9},
    {"kimi-k3", kit_kimi_k3, false, THINK "hm" END_THINK RESPONSE "yes", "hm", "yes", 3},
    {"qwen3", tag_specials, true, "<think>\n\nhm\n\n</think>\n\nyes\n", "hm", "yes\n", 6},
    {"qwen3", tag_specials, true, "\n<think>hm</think>yes</think><think>z", "hm", "yesz", 6},
    {"qwen3", tag_specials, true, "\n yes", "", "\n yes", 5},
    {"qwen3", no_specials, true, "<think>\nh<m</thinkm\n</think>\n\nyes", "h<m</thinkm", "yes", 5},
    {"qwen3", no_specials, false, "<thin yes", "", "<thin yes", 9},
    {R1, tag_specials, true, "\nhm\n</think>\n\nyes", "hm", "yes", 5},
    {R1, tag_specials, false, "yes", "", "yes", 3},
};

static void check_whole(const struct output *o, struct tokenizer *t, const struct tokens *ids)
{
    struct reading x;
    start(&x, o->format, t, o->think, REASONING_UNLIMITED);
    for (size_t i = 0; i < ids->n; i++)
        push(&x, ids->ids[i]);
    finish(&x);
    CHECK_STR(x.r.thought.len ? x.r.thought.ptr : "", o->thought);
    CHECK_INT(x.r.thought.len, strlen(o->thought));
    CHECK_INT(x.answer.len, strlen(o->answer));
    CHECK(x.answer.len == 0 || memcmp(x.answer.ptr, o->answer, x.answer.len) == 0);
    CHECK(!reasoning_is_thinking(&x.r));
    CHECK_INT(ids->n - x.r.n_tokens, o->n_answer);
    CHECK_INT(reasoning_forced(&x.r), -1);
    stop(&x);
}

/* An output that was cut is the beginning of the whole one's thought and answer, and nothing else. */
static void check_cut(const struct output *o, struct tokenizer *t, const struct tokens *ids,
                      size_t n)
{
    struct reading x;
    start(&x, o->format, t, o->think, REASONING_UNLIMITED);
    for (size_t i = 0; i < n; i++)
        push(&x, ids->ids[i]);
    struct str shown = str_slice(x.answer.ptr, x.answer.len);
    CHECK(shown.len <= strlen(o->answer));
    CHECK(shown.len == 0 || memcmp(shown.ptr, o->answer, shown.len) == 0);
    CHECK(x.certain <= strlen(o->thought));
    CHECK(x.certain == 0 || memcmp(x.r.thought.ptr, o->thought, x.certain) == 0);
    bool thinking = reasoning_is_thinking(&x.r);
    finish(&x);
    CHECK(!thinking || x.answer.len == 0);
    CHECK_INT(x.r.held.len, 0);
    for (size_t i = 0; i < x.r.thought.len; i++)
        CHECK((uint8_t)x.r.thought.ptr[i] < 0xF8);
    stop(&x);
}

TEST(reasoning_is_taken_apart_wherever_it_is_cut)
{
    for (size_t i = 0; i < ARRAY_LEN(outputs); i++) {
        struct tokenizer *t = kit_byte_tokenizer(outputs[i].specials);
        struct tokens ids = {0};
        spell(t, outputs[i].text, &ids);
        check_whole(&outputs[i], t, &ids);
        for (size_t n = 0; n < ids.n; n++)
            check_cut(&outputs[i], t, &ids, n);
        tokens_release(&ids);
        tokenizer_free(t);
    }
}

/* Markup of the letters alone is text where the vocabulary has the markers. */
TEST(reasoning_markers_are_ids_not_letters)
{
    struct error e = {0};
    struct tokens ids = {0};
    struct reading x;
    struct tokenizer *t = kit_byte_tokenizer(kit_kimi_k3);
    CHECK_OK(tokenizer_encode(t, str_of("say " END_THINK RESPONSE), 0, &ids, &e), &e);
    start(&x, "kimi-k3", t, true, REASONING_UNLIMITED);
    for (size_t i = 0; i < ids.n; i++)
        push(&x, ids.ids[i]);
    finish(&x);
    CHECK(reasoning_is_thinking(&x.r));
    CHECK_STR(x.r.thought.ptr, "say " END_THINK RESPONSE);
    CHECK_INT(x.r.n_tokens, ids.n);
    stop(&x);
    tokens_release(&ids);
    tokenizer_free(t);
}

/* Pushes what must come until anything may; returns how many that were. */
static uint32_t obey(struct reading *x)
{
    uint32_t n = 0;
    for (int32_t id; (id = reasoning_forced(&x->r)) >= 0; n++)
        push(x, id);
    return n;
}

static void push_text(struct reading *x, const char *text)
{
    struct tokens ids = {0};
    spell(x->t, text, &ids);
    for (size_t i = 0; i < ids.n; i++)
        push(x, ids.ids[i]);
    tokens_release(&ids);
}

TEST(reasoning_budget_closes_the_thought_and_opens_the_answer)
{
    static const struct {
        const char *format;
        const char *const *specials;
        uint32_t n_forced;
    } cases[] = {{"kimi-k3", kit_kimi_k3, 7 + 10}, {R1, tag_specials, 4}, {R1, no_specials, 11}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (uint32_t budget = 0; budget < 4; budget++) {
            struct reading x;
            struct tokenizer *t = kit_byte_tokenizer(cases[i].specials);
            start(&x, cases[i].format, t, true, budget);
            for (uint32_t k = 0; k < budget; k++) {
                CHECK_INT(reasoning_forced(&x.r), -1);
                push(&x, 'a' + (int32_t)k);
            }
            CHECK_INT(obey(&x), cases[i].n_forced);
            CHECK(!reasoning_is_thinking(&x.r));
            CHECK_INT(x.r.n_tokens, budget + (i == 0 ? 17 : i == 1 ? 2 : 9));
            push_text(&x, "yes");
            CHECK_INT(reasoning_forced(&x.r), -1);
            finish(&x);
            CHECK_STR(x.answer.ptr, "yes");
            CHECK_INT(x.r.thought.len, budget);
            CHECK(budget == 0 || memcmp(x.r.thought.ptr, "abc", budget) == 0);
            stop(&x);
            tokenizer_free(t);
        }
    }
}

/* A model that begins its thought by itself has the whole budget from there. */
TEST(reasoning_budget_counts_from_the_tag)
{
    struct reading x;
    struct tokenizer *t = kit_byte_tokenizer(tag_specials);
    start(&x, "qwen3", t, true, 2);
    push_text(&x, "\n<think>a");
    CHECK_INT(reasoning_forced(&x.r), -1);
    push_text(&x, "b");
    CHECK_INT(obey(&x), 4);
    push_text(&x, "yes");
    finish(&x);
    CHECK_STR(x.r.thought.ptr, "ab");
    CHECK_STR(x.answer.ptr, "yes");
    stop(&x);
    start(&x, "qwen3", t, true, 0);
    push_text(&x, "no thought");
    CHECK_INT(reasoning_forced(&x.r), -1);
    stop(&x);
    tokenizer_free(t);
}

TEST(reasoning_budget_waits_for_a_character_and_for_markup_but_not_for_ever)
{
    struct reading x;
    struct tokenizer *t = kit_byte_tokenizer(kit_kimi_k3);
    start(&x, "kimi-k3", t, true, 1);
    push(&x, 0xE2);
    CHECK_INT(reasoning_forced(&x.r), -1);
    push(&x, 0x82);
    CHECK_INT(reasoning_forced(&x.r), -1);
    push(&x, 0xAC);
    CHECK(obey(&x) > 0);
    CHECK_STR(x.r.thought.ptr, "\u20AC");
    stop(&x);
    start(&x, "kimi-k3", t, true, 1); /* it is closing by itself: nothing is forced on top */
    push_text(&x, END_THINK);
    CHECK_INT(obey(&x), 0);
    CHECK_INT(x.r.part, REASONING_BETWEEN);
    stop(&x);
    start(&x, "kimi-k3", t, true, 1);
    int n = 0;
    for (; reasoning_forced(&x.r) < 0; n++) {
        CHECK(n < 20);
        push_text(&x, "<|close|>");
    }
    CHECK(obey(&x) > 0);
    CHECK(!reasoning_is_thinking(&x.r));
    CHECK_INT(x.r.thought.len, 0);
    stop(&x);
    tokenizer_free(t);
}

/* Tokens of an earlier attempt leave the same state, in the middle of what is forced too. */
TEST(reasoning_goes_on_from_its_tokens_alone)
{
    struct tokenizer *t = kit_byte_tokenizer(kit_kimi_k3);
    struct tokens all = {0};
    struct reading first;
    struct error e = {0};
    start(&first, "kimi-k3", t, true, 5);
    for (int i = 0; i < 40; i++) {
        int32_t id = reasoning_forced(&first.r);
        id = id >= 0 ? id : 'a' + i % 26;
        CHECK_INT(tokens_push(&all, id, &e), 0);
        push(&first, id);
    }
    for (size_t cut = 0; cut < all.n; cut++) {
        struct reading again;
        start(&again, "kimi-k3", t, true, 5);
        for (size_t i = 0; i < cut; i++)
            push(&again, all.ids[i]);
        for (size_t i = cut; i < all.n; i++) {
            int32_t id = reasoning_forced(&again.r);
            CHECK(id < 0 || id == all.ids[i]);
            push(&again, all.ids[i]);
        }
        CHECK_STR(again.answer.ptr, first.answer.ptr);
        CHECK_STR(again.r.thought.ptr, first.r.thought.ptr);
        CHECK_INT(again.r.n_tokens, first.r.n_tokens);
        stop(&again);
    }
    CHECK_STR(first.r.thought.ptr, "abcde");
    stop(&first);
    tokens_release(&all);
    tokenizer_free(t);
}

/* Mostly markup, in any order, and bytes that are no characters; what must come does. */
static void babble(struct reading *x, uint64_t seed, size_t n, struct tokens *out)
{
    static const char *const pieces[] = {THINK,       END_THINK,   RESPONSE,   END_RESPONSE,
                                         "<|open|>",  "<|close|>", "<|sep|>",  "think",
                                         END_MESSAGE, "<think>",   "</think>", "\n"};
    struct error e = {0};
    while (out->n < n) {
        struct tokens ids = {0};
        uint64_t any = rng_u64(seed, out->n);
        size_t which = (size_t)(any >> 20) % (ARRAY_LEN(pieces) + 8);
        if (which < ARRAY_LEN(pieces))
            spell(x->t, pieces[which], &ids);
        else
            CHECK_OK(tokens_push(&ids, (int32_t)(any & 0xFF), &e), &e);
        for (size_t i = 0; i < ids.n; i++) {
            int32_t forced = reasoning_forced(&x->r);
            CHECK_OK(tokens_push(out, forced >= 0 ? forced : ids.ids[i], &e), &e);
            push(x, out->ids[out->n - 1]);
        }
        tokens_release(&ids);
    }
}

static void check_sound(struct reading *x, uint32_t budget, size_t n)
{
    finish(x);
    CHECK(str_utf8_valid(buf_str(&x->r.thought), NULL));
    CHECK(str_utf8_valid(buf_str(&x->answer), NULL));
    CHECK(x->r.n_tokens <= n);
    CHECK(x->r.part != REASONING_THOUGHT || x->r.n_tokens <= budget + 40u);
}

TEST(reasoning_holds_whatever_the_model_writes)
{
    static const struct {
        const char *format;
        const char *const *specials;
    } cases[] = {{"kimi-k3", kit_kimi_k3}, {"qwen3", tag_specials}, {R1, no_specials}};
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        struct tokenizer *t = kit_byte_tokenizer(cases[c].specials);
        for (uint64_t seed = 0; seed < 1500; seed++) {
            uint32_t budget = seed % 3 == 0 ? 1000 : (uint32_t)(seed % 40);
            struct tokens ids = {0};
            struct reading x, again;
            start(&x, cases[c].format, t, seed % 5 != 0, budget);
            babble(&x, seed, 120, &ids);
            check_sound(&x, budget, ids.n);
            start(&again, cases[c].format, t, seed % 5 != 0, budget);
            for (size_t i = 0; i < ids.n; i++)
                push(&again, ids.ids[i]);
            check_sound(&again, budget, ids.n);
            CHECK(str_equal(buf_str(&again.answer), buf_str(&x.answer)));
            CHECK(str_equal(buf_str(&again.r.thought), buf_str(&x.r.thought)));
            stop(&x);
            stop(&again);
            tokens_release(&ids);
        }
        tokenizer_free(t);
    }
}

TEST(reasoning_survives_allocation_failures)
{
    struct error e = {0};
    struct tokens ids = {0};
    struct tokenizer *t = kit_byte_tokenizer(kit_kimi_k3);
    spell(t, outputs[0].text, &ids);
    int rc = -1;
    for (long k = 1; rc != 0; k++) {
        struct reasoner *how = NULL;
        struct reasoning r = {0};
        struct detokenizer d;
        struct buf answer;
        buf_init(&answer, 1 << 20);
        detokenizer_init(&d, t, false);
        mem_fail_after(k);
        rc = reasoner_new(&how, format_of("kimi-k3"), t, &e);
        if (rc == 0)
            reasoning_begin(&r, how, true, 2);
        for (size_t i = 0; rc == 0 && i < ids.n; i++)
            rc = reasoning_push(&r, &d, ids.ids[i], &answer, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        reasoning_release(&r);
        reasoner_free(how);
        buf_release(&answer);
    }
    tokens_release(&ids);
    tokenizer_free(t);
}
