#include "engine/sampler/sampler.h"

#include <limits.h>

#include "base/alloc.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "tests/test.h"

#define MAX_VOCAB 300

/* The same rules once more, the plain way: sort everything, cut, draw. */
static int by_rank(const void *a, const void *b)
{
    const struct sampler_candidate *x = a;
    const struct sampler_candidate *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

static size_t oracle_cut(const struct engine_sampling *s, const double *p, size_t n)
{
    size_t kept = s->top_k > 0 && (size_t)s->top_k < n ? (size_t)s->top_k : n;
    double total = 0;
    for (size_t i = 0; i < kept; i++)
        total += p[i];
    double sum = 0;
    size_t by_p = 0;
    while (by_p < kept && (by_p == 0 || sum < (double)s->top_p * total))
        sum += p[by_p++];
    if (s->top_p < 1)
        kept = by_p;
    while (kept > 1 && p[kept - 1] < (double)s->min_p * p[0])
        kept--;
    return kept;
}

static int32_t oracle(const struct sampler_input *in)
{
    const struct engine_sampling *s = in->sampling;
    struct sampler_candidate c[MAX_VOCAB] = {{0}};
    double p[MAX_VOCAB];
    for (uint32_t id = 0; id < in->n_vocab; id++) {
        c[id] = (struct sampler_candidate){in->logits[id], (int32_t)id};
        size_t last_n = s->repeat_last_n < 0 ? SIZE_MAX : (size_t)s->repeat_last_n;
        bool seen = false;
        for (size_t back = 1; back <= in->n_history && back <= last_n; back++)
            seen = seen || in->history[in->n_history - back] == (int32_t)id;
        if (seen && s->repeat_penalty != 0)
            c[id].logit =
                c[id].logit > 0 ? c[id].logit / s->repeat_penalty : c[id].logit * s->repeat_penalty;
    }
    qsort(c, in->n_vocab, sizeof(c[0]), by_rank);
    if (s->temperature == 0)
        return c[0].id;
    for (uint32_t i = 0; i < in->n_vocab; i++)
        p[i] = numeric_exp((double)c[i].logit - (double)c[0].logit);
    size_t kept = oracle_cut(s, p, in->n_vocab);
    double total = 0;
    for (size_t i = 0; i < kept; i++)
        total += numeric_exp(((double)c[i].logit - (double)c[0].logit) / (double)s->temperature);
    double target = rng_unit(s->seed, in->index) * total;
    double sum = 0;
    for (size_t i = 0; i < kept; i++) {
        sum += numeric_exp(((double)c[i].logit - (double)c[0].logit) / (double)s->temperature);
        if (sum > target)
            return c[i].id;
    }
    return c[kept - 1].id;
}

static double pick(uint64_t round, int what)
{
    return rng_unit(12345 + round, (uint64_t)what);
}

static struct engine_sampling random_sampling(uint64_t round)
{
    return (struct engine_sampling){
        .temperature = pick(round, 1) < 0.2 ? 0 : (float)(pick(round, 2) * 2 + 0.05),
        .top_k = pick(round, 3) < 0.5 ? 0 : (int32_t)(pick(round, 4) * 400),
        .top_p = pick(round, 5) < 0.5 ? 1 : (float)pick(round, 6),
        .min_p = pick(round, 7) < 0.5 ? 0 : (float)(pick(round, 8) * 0.5),
        .repeat_penalty = pick(round, 9) < 0.3 ? 1 : (float)(0.5 + pick(round, 10) * 2),
        .repeat_last_n = (int32_t)(pick(round, 11) * 66) - 1,
        .seed = rng_u64(round, 99),
    };
}

TEST(sampler_agrees_with_sorting_everything)
{
    struct sampler_candidate scratch[MAX_VOCAB];
    float logits[MAX_VOCAB];
    int32_t history[64];
    for (uint64_t round = 0; round < 20000; round++) {
        struct engine_sampling s = random_sampling(round);
        uint32_t n_vocab = 1 + (uint32_t)(pick(round, 20) * MAX_VOCAB);
        /* Coarse values in every third round: many ties. */
        for (uint32_t i = 0; i < n_vocab; i++) {
            float x = rng_normal(round, i) * 3;
            logits[i] = round % 3 == 0 ? floorf(x) : x;
        }
        size_t n_history = (size_t)(pick(round, 21) * 65);
        for (size_t i = 0; i < n_history; i++)
            history[i] = (int32_t)(rng_unit(round + 7, 1000 + i) * n_vocab);
        struct sampler_input in = {.sampling = &s,
                                   .index = round % 50,
                                   .history = history,
                                   .n_history = n_history,
                                   .logits = logits,
                                   .n_vocab = n_vocab,
                                   .scratch = scratch};
        struct error e = {0};
        int32_t got = -1;
        CHECK_OK(sampler_check(&s, &e), &e);
        CHECK_OK(sampler_choose(&in, &got, &e), &e);
        int32_t want = oracle(&in);
        if (got != want)
            test_fail(__FILE__, __LINE__, "round %d: %d, want %d", (int)round, got, want);
    }
}

/* The frequencies of many draws are the softmax. */
TEST(sampler_draws_the_distribution)
{
    enum { DRAWS = 40000 };
    const float logits[4] = {1, 0, -1, 2};
    const double weight[4] = {exp(1 / 0.7), 1, exp(-1 / 0.7), exp(2 / 0.7)};
    double total = weight[0] + weight[1] + weight[2] + weight[3];
    struct engine_sampling s = {.temperature = 0.7f, .top_p = 1, .seed = 5};
    struct sampler_candidate scratch[4];
    int count[4] = {0};
    struct error e = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct sampler_input in = {
            .sampling = &s, .index = i, .logits = logits, .n_vocab = 4, .scratch = scratch};
        int32_t id = -1;
        CHECK_OK(sampler_choose(&in, &id, &e), &e);
        count[id]++;
    }
    for (int id = 0; id < 4; id++) {
        double p = weight[id] / total;
        CHECK(fabs((double)count[id] / DRAWS - p) < 4 * sqrt(p * (1 - p) / DRAWS));
    }
}

TEST(sampler_refuses_what_is_not_finite)
{
    struct engine_sampling s = {.top_p = 1};
    struct sampler_candidate scratch[3];
    float logits[3] = {0, NAN, 1};
    struct sampler_input in = {
        .sampling = &s, .index = 4, .logits = logits, .n_vocab = 3, .scratch = scratch};
    int32_t id = 77;
    struct error e = {0};
    CHECK_ERROR(sampler_choose(&in, &id, &e), &e, ERROR_NUMERIC, "id 1 is nan");
    logits[1] = INFINITY;
    CHECK_ERROR(sampler_choose(&in, &id, &e), &e, ERROR_NUMERIC, "answer token 4");
    CHECK_INT(id, 77);
}

TEST(sampler_names_the_value_out_of_range)
{
    struct error e = {0};
    const struct engine_sampling good = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};
    struct engine_sampling s = good;
    CHECK_OK(sampler_check(&s, &e), &e);
    s.temperature = -0.1f;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "temperature is -0.1");
    s.temperature = NAN;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "temperature is nan");
    s = good;
    s.top_k = -1;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "top_k is -1");
    s = good;
    s.top_p = 1.5f;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "top_p is 1.5");
    s = good;
    s.min_p = NAN;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "min_p");
    s = good;
    s.repeat_penalty = -1;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "repeat_penalty is -1");
    s = good;
    s.repeat_last_n = INT_MIN;
    CHECK_ERROR(sampler_check(&s, &e), &e, ERROR_INVALID, "repeat_last_n");
}

/* Feeds the text in pieces cut where the bits of `cuts` say, as the scheduler does. */
static size_t feed(const struct stop_rules *r, struct str text, unsigned cuts, bool *ret_stopped,
                   size_t *ret_most_shown)
{
    size_t from = 0;
    size_t safe = 0;
    *ret_most_shown = 0;
    for (size_t end = 1; end <= text.len; end++) {
        if (end < text.len && !(cuts >> (end - 1) & 1))
            continue;
        *ret_stopped = stop_rules_check(r, str_slice(text.ptr, end), from, &safe);
        if (*ret_stopped)
            return safe;
        *ret_most_shown = safe;
        from = end;
    }
    return safe;
}

static void check_splits(const char *text, const char *const *stops, size_t n_stops, long cut_at)
{
    struct str stop[4];
    for (size_t i = 0; i < n_stops; i++)
        stop[i] = str_of(stops[i]);
    struct stop_rules *r = NULL;
    struct error e = {0};
    CHECK_OK(stop_rules_new(&r, stop, n_stops, &e), &e);
    struct str whole = str_of(text);
    CHECK(whole.len > 0 && whole.len <= 14);
    for (unsigned cuts = 0; cuts < 1u << (whole.len - 1); cuts++) {
        bool stopped = false;
        size_t shown;
        size_t safe = feed(r, whole, cuts, &stopped, &shown);
        CHECK_INT(stopped, cut_at >= 0);
        if (stopped) {
            CHECK_INT(safe, cut_at);
            CHECK(shown <= safe); /* nothing beyond the cut was ever given out */
        }
    }
    stop_rules_free(r);
}

TEST(stop_strings_cut_the_same_at_every_split)
{
    check_splits("one END two", (const char *[]){"END"}, 1, 4);
    check_splits("one EN", (const char *[]){"END"}, 1, -1);
    check_splits("aaab", (const char *[]){"aab"}, 1, 1);
    check_splits("xabcd", (const char *[]){"bcd", "abc"}, 2, 1);     /* complete first */
    check_splits("xabc.", (const char *[]){"bc", "abc", "c"}, 3, 1); /* together: the longest */
    check_splits("abab!", (const char *[]){"ab", "abab"}, 2, 0);
    check_splits("nothing", (const char *[]){"\n\n", "User:"}, 2, -1);
    check_splits("na\xC3\xAFve \xE2\x82\xAC", (const char *[]){"\xE2\x82\xAC"}, 1, 7);
    check_splits("free", NULL, 0, -1);
}

TEST(stop_strings_hold_back_only_what_could_begin_one)
{
    struct stop_rules *r = NULL;
    struct error e = {0};
    const struct str stop[] = {str_of("</s>"), str_of("<end>")};
    CHECK_OK(stop_rules_new(&r, stop, 2, &e), &e);
    size_t safe = 0;
    CHECK(!stop_rules_check(r, str_of("text"), 0, &safe));
    CHECK_INT(safe, 4);
    CHECK(!stop_rules_check(r, str_of("text<"), 4, &safe));
    CHECK_INT(safe, 4);
    CHECK(!stop_rules_check(r, str_of("text<en"), 5, &safe));
    CHECK_INT(safe, 4);
    CHECK(!stop_rules_check(r, str_of("text<en<"), 7, &safe));
    CHECK_INT(safe, 7);
    CHECK(!stop_rules_check(r, str_of("text<en<b"), 8, &safe));
    CHECK_INT(safe, 9);
    stop_rules_free(r);
}

TEST(stop_strings_refuse_an_empty_one_and_survive_no_memory)
{
    struct stop_rules *r = NULL;
    struct error e = {0};
    const struct str stop[] = {str_of("a"), str_of("")};
    CHECK_ERROR(stop_rules_new(&r, stop, 2, &e), &e, ERROR_INVALID, "2 of 2 is empty");
    for (long k = 1; k <= 3; k++) {
        mem_fail_after(k);
        int rc = stop_rules_new(&r, stop, 1, &e);
        mem_fail_after(0);
        CHECK_INT(rc, -ERROR_NOMEM);
    }
    CHECK(r == NULL);
}
