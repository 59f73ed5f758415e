/*
 * Which experts a row goes to, and with what weight; engine-spec 4.6.
 *
 * Logits are an ordinary product of the F32 router with the f32 row. Then, for each row by itself: sums
 * in f64, of the softmax in ascending id, of the weights from the best to the last.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

/* Weights are divided by their sum, but by no less than this (the smallest normal f16). */
#define LEAST_SUM 0x1p-14f

/* The k largest of score [n] with their scores, best first; equal ones in ascending index. */
static void choose_largest(const float *score, uint32_t n, uint32_t k, struct route *best)
{
    uint32_t n_best = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = n_best;
        while (at > 0 && score[i] > best[at - 1].weight)
            at--;
        if (at == k)
            continue;
        n_best = MIN_OF(n_best + 1, k);
        memmove(best + at + 1, best + at, (n_best - 1 - at) * sizeof(*best));
        best[at] = (struct route){i, score[i]};
    }
}

/* Leaves the best groups' scores; a group is worth the sum of its two largest. */
static void keep_groups(const struct hparams *hp, float *score)
{
    uint32_t n_groups = hp->n_expert_groups, size = hp->n_experts / n_groups;
    struct route best[EXPERTS_MAX] = {{0}};
    float worth[EXPERTS_MAX] = {0};
    bool kept[EXPERTS_MAX] = {false};
    for (uint32_t g = 0; g < n_groups; g++) {
        struct route top[2] = {{0}, {0}};
        choose_largest(score + g * size, size, MIN_OF(size, 2u), top);
        worth[g] = top[0].weight + top[1].weight;
    }
    choose_largest(worth, n_groups, hp->n_expert_groups_used, best);
    for (uint32_t i = 0; i < hp->n_expert_groups_used; i++)
        kept[best[i].expert] = true;
    for (uint32_t g = 0; g < n_groups; g++) {
        for (uint32_t i = 0; i < size && !kept[g]; i++)
            score[g * size + i] = -INFINITY;
    }
}

static void softmax(const struct kernels *k, float *x, uint32_t n)
{
    float max = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = MAX_OF(max, x[i]);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = k->exp1(x[i] - max);
        sum += (double)x[i];
    }
    float inverse = (float)(1.0 / sum);
    for (uint32_t i = 0; i < n; i++)
        x[i] *= inverse;
}

static void weigh(const struct hparams *hp, const struct kernels *k, const float *probs,
                  struct route *routes)
{
    uint32_t n = hp->n_experts_used;
    float weight[EXPERTS_MAX];
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        weight[i] = probs[routes[i].expert];
    if (hp->expert_gating == GATING_SOFTMAX_SELECTED)
        softmax(k, weight, n);
    for (uint32_t i = 0; i < n; i++)
        sum += (double)weight[i];
    float divisor = hp->expert_norm ? MAX_OF((float)sum, LEAST_SUM) : 1.0f;
    float scale = hp->expert_scale == 0.0f ? 1.0f : hp->expert_scale;
    for (uint32_t i = 0; i < n; i++)
        routes[i].weight = weight[i] / divisor * scale;
}

void router_choose(const struct hparams *hp, const struct kernels *k, const float *bias,
                   float *probs, float *scores, struct route *routes)
{
    uint32_t n = hp->n_experts;
    if (hp->expert_gating == GATING_SOFTMAX)
        softmax(k, probs, n);
    else if (hp->expert_gating == GATING_SIGMOID) {
        for (uint32_t i = 0; i < n; i++)
            probs[i] = 1.0f / (1.0f + k->exp1(-probs[i]));
    }
    for (uint32_t i = 0; i < n; i++)
        scores[i] = bias ? probs[i] + bias[i] : probs[i];
    if (hp->n_expert_groups > 1)
        keep_groups(hp, scores);
    choose_largest(scores, n, hp->n_experts_used, routes);
    weigh(hp, k, probs, routes);
}
