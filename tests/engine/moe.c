/*
 * Mixtures of experts against their formulas (engine-spec 4.6, 4.7) in f64, one row and one expert after
 * the other in the order of the router: what a layer read, chose and gave comes from the trace of an exact
 * step, weights from the file's tensors.
 */
#include "base/alloc.h"
#include "engine/model/arch.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_ROWS 150 /* several batches of pairs, several blocks of rows */
#define MAX_LAYERS 4

enum what { H, TOPK, WEIGHTS, OUT, SHARED, WHATS };
static const char *const names[WHATS][2] = {
    [H] = {"ffn_norm", NULL},
    [TOPK] = {"ffn_moe_topk", NULL},
    [WEIGHTS] = {"ffn_moe_weights_norm", "ffn_moe_weights_scaled"},
    [OUT] = {"ffn_moe_out", NULL},
    [SHARED] = {"ffn_shexp", NULL},
};

struct seen {
    struct step_rows rows[MAX_LAYERS][WHATS];
};

static void watch(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows)
{
    struct seen *s = context;
    for (int w = 0; w < WHATS && layer < MAX_LAYERS; w++) {
        struct step_rows *r = &s->rows[layer][w];
        if (strcmp(name, names[w][0]) != 0 && (!names[w][1] || strcmp(name, names[w][1]) != 0))
            continue;
        step_rows_add(r, x, n_cols, n_rows);
    }
}

static void seen_release(struct seen *s)
{
    for (int il = 0; il < MAX_LAYERS; il++) {
        for (int w = 0; w < WHATS; w++)
            mem_free(s->rows[il][w].x);
    }
}

/* ------------------------------------------------------------------ the formulas */

/* y[i] = W[first + i] x for n rows of w. */
static void multiply(const struct tensor *w, uint64_t first, const double *x, double *y, size_t n)
{
    float *row = mem_array(w->n_cols, sizeof(*row));
    for (size_t i = 0; i < n; i++) {
        w->quant->decode((const char *)w->data + (first + i) * w->row_bytes, row, w->n_cols);
        y[i] = 0;
        for (size_t k = 0; k < w->n_cols; k++)
            y[i] += (double)row[k] * x[k];
    }
    mem_free(row);
}

static double activation(const struct hparams *hp, double gate, double up)
{
    const double beta = (double)hp->situ_beta;
    const double linear = (double)hp->situ_linear_beta;
    const double sigmoid = 1 / (1 + exp(-gate));
    if (beta == 0)
        return gate * sigmoid * up;
    return beta * tanh(gate / beta) * sigmoid * (linear > 0 ? linear * tanh(up / linear) : up);
}

/* The rows of three matrices that make a gated network: of tensors apart, or of one. */
struct network {
    const struct tensor *gate, *up, *down;
    uint64_t gate_row, up_row, down_row;
};

/* y [width] += weight * network(x [width]) */
static void add_network(const struct hparams *hp, const struct network *n, const double *x,
                        size_t ff, double weight, double *y, size_t width)
{
    double *hidden = mem_array(2 * ff + width, sizeof(*hidden));
    double *out = hidden + 2 * ff;
    multiply(n->gate, n->gate_row, x, hidden, ff);
    multiply(n->up, n->up_row, x, hidden + ff, ff);
    for (size_t i = 0; i < ff; i++)
        hidden[i] = activation(hp, hidden[i], hidden[ff + i]);
    multiply(n->down, n->down_row, hidden, out, width);
    for (size_t i = 0; i < width; i++)
        y[i] += weight * out[i];
    mem_free(hidden);
}

static struct network expert_of(const struct layer *l, uint64_t e, uint64_t ff, uint64_t width)
{
    if (l->gate_up_exps.data)
        return (struct network){&l->gate_up_exps, &l->gate_up_exps, &l->down_exps,
                                2 * e * ff,       2 * e * ff + ff,  e * width};
    return (struct network){&l->gate_exps, &l->up_exps, &l->down_exps, e * ff, e * ff, e * width};
}

struct error_sum {
    double diff, ref;
};

static void add_errors(struct error_sum *s, const float *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->diff += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        s->ref += want[i] * want[i];
    }
}

/* One row's routed experts, from h [n_embd]. */
static void define_row(const struct model *m, uint32_t il, const double *h, const float *ids,
                       const float *weights, double *y, size_t width)
{
    const struct hparams *hp = &m->hp;
    const struct layer *l = &m->layers[il];
    double *z = mem_array(width, sizeof(*z));
    if (l->routed_down.data)
        multiply(&l->routed_down, 0, h, z, width);
    else
        memcpy(z, h, width * sizeof(*z));
    for (uint32_t i = 0; i < hp->n_experts_used; i++) {
        const struct network n = expert_of(l, (uint64_t)ids[i], hp->expert_ff, width);
        add_network(hp, &n, z, hp->expert_ff, (double)weights[i], y, width);
    }
    mem_free(z);
}

static void check_layer(const struct model *m, uint32_t il, const struct step_rows seen[WHATS])
{
    const struct hparams *hp = &m->hp;
    const struct layer *l = &m->layers[il];
    const struct network shared = {.gate = &l->gate_shexp, .up = &l->up_shexp, &l->down_shexp};
    const size_t width = seen[OUT].n_cols;
    struct error_sum routed_error = {0};
    struct error_sum shared_error = {0};
    double *h = mem_array(hp->n_embd, sizeof(*h));
    CHECK_INT(seen[OUT].n, N_ROWS);
    for (size_t r = 0; r < N_ROWS; r++) {
        double *y = mem_array(width + hp->n_embd, sizeof(*y));
        for (size_t i = 0; i < hp->n_embd; i++)
            h[i] = (double)seen[H].x[r * hp->n_embd + i];
        define_row(m, il, h, seen[TOPK].x + r * hp->n_experts_used,
                   seen[WEIGHTS].x + r * hp->n_experts_used, y, width);
        add_errors(&routed_error, seen[OUT].x + r * width, y, width);
        if (hp->shared_ff > 0) {
            add_network(hp, &shared, h, hp->shared_ff, 1, y + width, hp->n_embd);
            add_errors(&shared_error, seen[SHARED].x + r * hp->n_embd, y + width, hp->n_embd);
        }
        mem_free(y);
    }
    mem_free(h);
    const double routed = sqrt(routed_error.diff / routed_error.ref);
    const double extra = hp->shared_ff > 0 ? sqrt(shared_error.diff / shared_error.ref) : 0;
    test_note("layer %u: rel rms %.1e, shared %.1e", il, routed, extra);
    CHECK(routed < 1e-6 && extra < 1e-6);
}

static void run(struct step_kit *k, const char *path, struct seen *seen,
                void (*change)(struct model *m))
{
    int32_t ids[N_ROWS];
    const struct step_kit_options o = {.max_rows = N_ROWS,
                                       .max_logits = 1,
                                       .positions = N_ROWS,
                                       .change = change,
                                       .trace = seen ? watch : NULL,
                                       .trace_context = seen};
    step_kit_open(k, path, &o);
    for (uint32_t i = 0; i < N_ROWS; i++)
        ids[i] = (int32_t)((i * 37 + 11) % k->model.hp.n_vocab);
    step_kit_run(k, kv_reserve(k->kv, N_ROWS), ids, 0, N_ROWS, 1);
}

static void check_model(const char *name, const char *arguments)
{
    char path[4096];
    struct step_kit k;
    struct seen seen = {0};
    size_t n = 0;
    run(&k, step_kit_model(name, arguments, path), &seen, NULL);
    for (uint32_t il = 0; il < MIN_OF(k.model.hp.n_layers, (uint32_t)MAX_LAYERS); il++) {
        if (k.model.layers[il].parts & PART_MOE) {
            check_layer(&k.model, il, seen.rows[il]);
            n++;
        }
    }
    CHECK(n > 0);
    step_kit_close(&k);
    seen_release(&seen);
}

TEST(moe_of_llama_is_its_formula)
{
    check_model("llama", "--arch llama --experts 4 --used 2 --vocab 300 --type Q4_0");
}

TEST(moe_of_odd_sizes_is_its_formula)
{
    check_model("odd", "--arch qwen3moe --embd 72 --heads 2 --head-dim 16 --experts 13 --used 5 "
                       "--expert-ff 37 --vocab 300 --type F32");
}

TEST(moe_of_one_expert_for_all_rows_is_its_formula)
{
    check_model("one", "--arch qwen3moe --experts 1 --used 1 --vocab 300 --type Q8_0");
}

TEST(moe_of_two_formats_is_its_formula)
{
    check_model("two",
                "--arch qwen3moe --layers 1 --experts 9 --used 4 --expert-ff 96 --vocab 300 --type "
                "Q4_K --expert-type IQ1_S");
}

TEST(moe_of_deepseek2_is_its_formula)
{
    check_model("groups", "--arch deepseek2 --vocab 300 --type Q4_0");
}

TEST(moe_of_kimi_k3_is_its_formula)
{
    check_model("latent", "--arch kimi-k3 --layers 3 --mla-every 2 --latent 96 --vocab 300 --type "
                          "Q8_0 --expert-type MXFP4");
}

TEST(moe_of_merged_gate_and_up_is_its_formula)
{
    check_model("merged",
                "--arch qwen3moe --experts 7 --used 3 --merged --expert-ff 64 --vocab 300 "
                "--type Q5_0");
}
