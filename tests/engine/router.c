/*
 * The choice of experts against its definition (engine-spec 4.6), in f64 with libm and a full sort, and
 * what each rule of it says by itself.
 */
#include "base/rng.h"
#include "engine/model/blocks/blocks.h"
#include "tests/test.h"

#define MAX_EXPERTS EXPERTS_MAX

struct choice {
    uint32_t id[MAX_EXPERTS];
    double weight[MAX_EXPERTS];
    double margin; /* between the last chosen score and the next, relative; 1: no next */
};

struct scored {
    uint32_t id;
    double score;
};

static int best_first(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* ------------------------------------------------------------------ the definition */

static void define_probs(const struct hparams *hp, const float *logits, double *probs)
{
    double sum = 0;
    for (uint32_t i = 0; i < hp->n_experts; i++)
        sum += exp((double)logits[i]);
    for (uint32_t i = 0; i < hp->n_experts; i++) {
        const double x = (double)logits[i];
        probs[i] = hp->expert_gating == GATING_SOFTMAX   ? exp(x) / sum
                   : hp->expert_gating == GATING_SIGMOID ? 1 / (1 + exp(-x))
                                                         : x;
    }
}

static double two_largest(const double *s, uint32_t n)
{
    double first = -INFINITY;
    double second = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (s[i] > first) {
            second = first;
            first = s[i];
        } else if (s[i] > second) {
            second = s[i];
        }
    }
    return n > 1 ? first + second : first;
}

/* A group stays when fewer than `used` are better, the lower one of equals. */
static void define_groups(const struct hparams *hp, double *s)
{
    const uint32_t n = hp->n_expert_groups;
    const uint32_t size = hp->n_experts / n;
    double worth[MAX_EXPERTS];
    for (uint32_t g = 0; g < n; g++)
        worth[g] = two_largest(s + g * size, size);
    for (uint32_t g = 0; g < n; g++) {
        uint32_t better = 0;
        for (uint32_t h = 0; h < n; h++)
            better += worth[h] > worth[g] || (h < g && worth[h] == worth[g]);
        for (uint32_t i = 0; better >= hp->n_expert_groups_used && i < size; i++)
            s[g * size + i] = -INFINITY;
    }
}

static void define(const struct hparams *hp, const float *logits, const float *bias,
                   struct choice *ret)
{
    static struct scored sorted[MAX_EXPERTS];
    double probs[MAX_EXPERTS];
    double s[MAX_EXPERTS];
    double sum = 0;
    define_probs(hp, logits, probs);
    for (uint32_t i = 0; i < hp->n_experts; i++)
        s[i] = probs[i] + (bias ? (double)bias[i] : 0);
    if (hp->n_expert_groups > 1)
        define_groups(hp, s);
    for (uint32_t i = 0; i < hp->n_experts; i++)
        sorted[i] = (struct scored){i, s[i]};
    qsort(sorted, hp->n_experts, sizeof(*sorted), best_first);
    ret->margin = 1;
    for (uint32_t i = 0; i < hp->n_experts_used; i++) {
        const double p = probs[sorted[i].id];
        ret->id[i] = sorted[i].id;
        ret->weight[i] = hp->expert_gating == GATING_SOFTMAX_SELECTED ? exp(p) : p;
        sum += ret->weight[i];
        if (i + 1 < hp->n_experts)
            ret->margin = fmin(ret->margin, sorted[i].score - sorted[i + 1].score);
    }
    for (uint32_t i = 0; i < hp->n_experts_used; i++) {
        if (hp->expert_gating == GATING_SOFTMAX_SELECTED)
            ret->weight[i] /= sum;
        if (hp->expert_norm && hp->expert_gating != GATING_SOFTMAX_SELECTED)
            ret->weight[i] /= fmax(sum, 0x1p-14);
        if (hp->expert_scale > 0)
            ret->weight[i] *= (double)hp->expert_scale;
    }
}

/* ------------------------------------------------------------------ against the engine's */

static void choose(const struct hparams *hp, const float *logits, const float *bias,
                   struct route *routes)
{
    static float probs[MAX_EXPERTS];
    static float scores[MAX_EXPERTS];
    memcpy(probs, logits, hp->n_experts * sizeof(*probs));
    router_choose(hp, &kernels_generic, bias, probs, scores, routes);
}

/* False: scores too near to each other for f32 to tell them apart as f64 does. */
static bool check_one(const struct hparams *hp, const float *logits, const float *bias)
{
    static struct choice want;
    struct route got[MAX_EXPERTS];
    choose(hp, logits, bias, got);
    define(hp, logits, bias, &want);
    if (want.margin < 1e-6)
        return false;
    for (uint32_t i = 0; i < hp->n_experts_used; i++) {
        CHECK_INT(got[i].expert, want.id[i]);
        if (!(fabs((double)got[i].weight - want.weight[i]) <= 1e-6 * want.weight[i] + 1e-30))
            test_fail(__FILE__, __LINE__, "weight %u is %.9g, want %.9g", i, (double)got[i].weight,
                      want.weight[i]);
    }
    return true;
}

static float random_float(uint64_t seed, uint64_t i, float range)
{
    return ((float)(rng_u64(seed, i) >> 40) * 0x1p-23f - 1.0f) * range;
}

TEST(router_chooses_by_its_definition)
{
    static const struct hparams configs[] = {
        {.n_experts = 8, .n_experts_used = 3, .expert_gating = GATING_SOFTMAX, .expert_norm = true},
        {.n_experts = 8, .n_experts_used = 8, .expert_gating = GATING_SOFTMAX},
        {.n_experts = 16,
         .n_experts_used = 4,
         .n_expert_groups = 4,
         .n_expert_groups_used = 2,
         .expert_gating = GATING_SIGMOID,
         .expert_norm = true,
         .expert_scale = 2.5f},
        {.n_experts = 12,
         .n_experts_used = 2,
         .n_expert_groups = 12,
         .n_expert_groups_used = 3,
         .expert_gating = GATING_SIGMOID},
        {.n_experts = 64,
         .n_experts_used = 6,
         .expert_gating = GATING_SIGMOID,
         .expert_norm = true},
        {.n_experts = 10, .n_experts_used = 4, .expert_gating = GATING_SOFTMAX_SELECTED},
        {.n_experts = 60,
         .n_experts_used = 5,
         .n_expert_groups = 6,
         .n_expert_groups_used = 6,
         .expert_gating = GATING_SOFTMAX,
         .expert_scale = 1.0f},
        {.n_experts = 1, .n_experts_used = 1, .expert_gating = GATING_SIGMOID, .expert_norm = true},
    };
    float logits[MAX_EXPERTS];
    float bias[MAX_EXPERTS];
    int n_near = 0;
    for (size_t c = 0; c < ARRAY_LEN(configs); c++) {
        for (uint64_t seed = 0; seed < 100; seed++) {
            for (uint32_t i = 0; i < configs[c].n_experts; i++) {
                logits[i] = random_float(seed, i, 4.0f);
                bias[i] = random_float(~seed, i, 0.3f);
            }
            n_near += !check_one(&configs[c], logits, seed % 2 ? bias : NULL);
        }
    }
    CHECK(n_near < 40);
}

/* As many as the largest models have; logits apart enough to be told apart. */
TEST(router_chooses_among_896)
{
    const struct hparams hp = {.n_experts = 896,
                               .n_experts_used = 16,
                               .expert_gating = GATING_SIGMOID,
                               .expert_norm = true};
    static const uint32_t steps[] = {1, 125, 500, 895}; /* each a permutation of 0 .. 896 */
    float logits[896];
    for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
        for (uint32_t i = 0; i < 896; i++)
            logits[i] = (float)(i * steps[s] % 897) / 448.0f - 1.0f;
        CHECK(check_one(&hp, logits, NULL));
    }
}

TEST(router_bias_changes_the_choice_and_not_the_weights)
{
    const struct hparams hp = {
        .n_experts = 4, .n_experts_used = 2, .expert_gating = GATING_SIGMOID};
    static const float logits[4] = {2.0f, 1.0f, 0.0f, -1.0f};
    static const float bias[4] = {0.0f, -5.0f, 0.0f, 7.0f};
    struct route plain[4];
    struct route biased[4];
    choose(&hp, logits, NULL, plain);
    choose(&hp, logits, bias, biased);
    CHECK(plain[0].expert == 0 && plain[1].expert == 1);
    CHECK(biased[0].expert == 3 && biased[1].expert == 0);
    CHECK(biased[1].weight == plain[0].weight);
    CHECK(fabs((double)biased[0].weight - 1 / (1 + exp(1))) < 1e-7);
}

/* The best expert of all is in a group that two good ones of another outweigh. */
TEST(router_leaves_the_other_groups_out)
{
    const struct hparams hp = {.n_experts = 6,
                               .n_experts_used = 2,
                               .n_expert_groups = 3,
                               .n_expert_groups_used = 1,
                               .expert_gating = GATING_SOFTMAX_SELECTED};
    static const float logits[6] = {9.0f, -9.0f, 1.0f, 1.5f, 6.0f, 5.0f};
    struct route r[6];
    choose(&hp, logits, NULL, r);
    CHECK(r[0].expert == 4 && r[1].expert == 5);
}

TEST(router_takes_the_lower_of_equals)
{
    const struct hparams hp = {.n_experts = 8,
                               .n_experts_used = 3,
                               .n_expert_groups = 4,
                               .n_expert_groups_used = 2,
                               .expert_gating = GATING_SOFTMAX};
    static const float logits[8] = {0};
    struct route r[8];
    choose(&hp, logits, NULL, r);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(r[i].expert == i && r[i].weight == 0.125f);
}

/* Weights are divided by their sum or 2^-14, whichever is more, and scaled then. */
TEST(router_norm_has_a_floor)
{
    struct hparams hp = {.n_experts = 3,
                         .n_experts_used = 3,
                         .expert_gating = GATING_SIGMOID,
                         .expert_norm = true,
                         .expert_scale = 2.0f};
    float logits[3] = {-200.0f, -200.0f, -200.0f};
    struct route r[3];
    choose(&hp, logits, NULL, r);
    for (int i = 0; i < 3; i++)
        CHECK(r[i].weight == 0.0f);
    logits[1] = -12.0f;
    choose(&hp, logits, NULL, r);
    CHECK(r[0].expert == 1);
    CHECK(fabs((double)r[0].weight / (2 * 0x1p14 / (1 + exp(12))) - 1) < 1e-6);
    hp.expert_norm = false;
    choose(&hp, logits, NULL, r);
    CHECK(fabs((double)r[0].weight / (2 / (1 + exp(12))) - 1) < 1e-6);
}

/* A step gone wrong still asks for experts that exist, each once. */
TEST(router_survives_what_is_no_number)
{
    const struct hparams hp = {.n_experts = 8,
                               .n_experts_used = 5,
                               .n_expert_groups = 4,
                               .n_expert_groups_used = 3,
                               .expert_gating = GATING_SOFTMAX,
                               .expert_norm = true};
    for (unsigned mask = 0; mask < 256; mask++) {
        float logits[8];
        unsigned seen = 0;
        struct route r[8];
        for (unsigned i = 0; i < 8; i++)
            logits[i] = mask >> i & 1 ? NAN : (float)i;
        choose(&hp, logits, NULL, r);
        for (int i = 0; i < 5; i++) {
            CHECK(r[i].expert < 8 && !(seen >> r[i].expert & 1));
            seen |= 1u << r[i].expert;
        }
    }
}
