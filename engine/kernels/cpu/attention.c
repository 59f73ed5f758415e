#include "engine/kernels/cpu/attention.h"

#include <string.h>

#include "base/compiler.h"

/* Rows by tiles: the steps that all rows of a tile have together, then what single ones have more. */
static void multiply(const struct attention_parts *parts, const struct attention_row *rows,
                     size_t n_rows, size_t n_cols, attention_block *b)
{
    for (size_t r = 0; r < n_rows; r += parts->tile_rows) {
        size_t n = MIN_OF(n_rows - r, parts->tile_rows);
        size_t common = rows[r].n_steps;
        for (size_t i = 1; i < n; i++)
            common = MIN_OF(common, rows[r + i].n_steps);
        parts->multiply(rows + r, n, 0, common, n_cols, b);
        for (size_t i = 0; i < n; i++) {
            if (rows[r + i].n_steps > common)
                parts->multiply(rows + r + i, 1, common, rows[r + i].n_steps, n_cols, b);
        }
    }
}

static void multiply_scores(const struct attention_page *a, const struct attention_parts *parts,
                            size_t n_keys, float score[][KV_PAGE])
{
    _Alignas(64) attention_block b[ATTENTION_SIDE];
    struct attention_row rows[ATTENTION_QUERIES];
    memset(score, 0, a->n_queries * sizeof(score[0]));
    for (size_t c = 0; c < a->k_dim; c += ATTENTION_SIDE) {
        size_t n_dims = MIN_OF(a->k_dim - c, (size_t)ATTENTION_SIDE);
        parts->load_keys(a, n_keys, c, n_dims, b);
        for (size_t i = 0; i < a->n_queries; i++)
            rows[i] = (struct attention_row){a->queries[i].q + c, score[i], n_dims};
        multiply(parts, rows, a->n_queries, ATTENTION_PADDED(n_keys), b);
    }
}

static void multiply_values(const struct attention_page *a, const struct attention_parts *parts,
                            size_t n_keys, float weight[][KV_PAGE])
{
    _Alignas(64) attention_block b[ATTENTION_SIDE];
    struct attention_row rows[ATTENTION_QUERIES];
    for (size_t i = 0; i < a->n_queries; i++)
        memset(a->queries[i].acc, 0, ATTENTION_PADDED(a->v_dim) * sizeof(float));
    for (size_t c = 0; c < a->v_dim; c += ATTENTION_SIDE) {
        size_t n_dims = MIN_OF(a->v_dim - c, (size_t)ATTENTION_SIDE);
        parts->load_values(a, n_keys, c, n_dims, b);
        for (size_t i = 0; i < a->n_queries; i++)
            rows[i] =
                (struct attention_row){weight[i], a->queries[i].acc + c, a->queries[i].n_keys};
        multiply(parts, rows, a->n_queries, ATTENTION_PADDED(n_dims), b);
    }
}

void attention_run(const struct attention_page *a, const struct attention_parts *parts)
{
    _Alignas(64) float score[ATTENTION_QUERIES][KV_PAGE];
    size_t n_keys = 0; /* the most that a query sees: later keys may not be there yet */
    for (size_t i = 0; i < a->n_queries; i++)
        n_keys = MAX_OF(n_keys, a->queries[i].n_keys);
    multiply_scores(a, parts, n_keys, score);
    for (size_t i = 0; i < a->n_queries; i++) {
        struct attention_query *query = &a->queries[i];
        query->sum = parts->weigh(score[i], query->n_keys, a->scale, &query->max);
    }
    multiply_values(a, parts, n_keys, score);
}
