/*
 * A layer of delta attention against its formulas (engine-spec 4.4) in f64, the recurrence in its chunked
 * form: from the normed input that the trace shows and the file's own tensors to what the layer adds.
 */
#include "base/alloc.h"
#include "engine/model/arch.h"
#include "tests/engine/kda_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 75 /* more than a block of rows */

/* ------------------------------------------------------------------ what the layer read and gave */

struct seen {
    struct step_rows in, out; /* of layer 0: attn_norm, kda_out */
};

static void watch(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows)
{
    struct seen *s = context;
    if (layer == 0 && strcmp(name, "attn_norm") == 0)
        step_rows_add(&s->in, x, n_cols, n_rows);
    if (layer == 0 && strcmp(name, "kda_out") == 0)
        step_rows_add(&s->out, x, n_cols, n_rows);
}

/* ------------------------------------------------------------------ the oracle */

/* y [n][rows of w] = W x */
static double *multiply(const struct tensor *w, const double *x, size_t n)
{
    double *y = mem_array(n * w->n_rows, sizeof(*y));
    float *row = mem_array(w->n_cols, sizeof(*row));
    for (uint64_t i = 0; i < w->n_rows; i++) {
        w->quant->decode((const char *)w->data + i * w->row_bytes, row, w->n_cols);
        for (size_t r = 0; r < n; r++) {
            double sum = 0;
            for (uint64_t c = 0; c < w->n_cols; c++)
                sum += (double)row[c] * x[r * w->n_cols + c];
            y[r * w->n_rows + i] = sum;
        }
    }
    mem_free(row);
    return y;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* silu of the causal convolution; inputs before the first row are 0. */
static void convolve(double *x, const struct tensor *w, size_t n, size_t width)
{
    const float *kernel = w->data;
    const size_t taps = w->n_cols;
    for (size_t t = n; t-- > 0;) { /* from the end: the inputs before are still there */
        for (size_t c = 0; c < width; c++) {
            double sum = 0;
            for (size_t back = 0; back < taps && back <= t; back++)
                sum += (double)kernel[c * taps + taps - 1 - back] * x[(t - back) * width + c];
            x[t * width + c] = sum * sigmoid(sum);
        }
    }
}

static double log_decay(const struct model *m, const struct layer *l, double z, size_t head,
                        size_t channel)
{
    const double rate = (double)((const float *)l->a.data)[head];
    const double lower = (double)m->hp.kda_gate_lower_bound;
    z += (double)((const float *)l->dt_bias.data)[channel];
    return isfinite(lower) ? lower * sigmoid(-rate * z) : rate * log1p(exp(z));
}

/* The n rows of one head out of [n][width]; divided by their length when asked for. */
static double *head_rows(const double *x, size_t n, size_t width, size_t head, size_t d, double eps)
{
    double *out = mem_array(n * d, sizeof(*out));
    for (size_t r = 0; r < n; r++) {
        double sum = 0;
        memcpy(out + r * d, x + r * width + head * d, d * sizeof(*out));
        for (size_t i = 0; eps > 0 && i < d; i++)
            sum += out[r * d + i] * out[r * d + i];
        for (size_t i = 0; eps > 0 && i < d; i++)
            out[r * d + i] /= fmax(sqrt(sum), eps);
    }
    return out;
}

/* RMS norm of a head's row, its gate, and to its place in [n][width]. */
static void finish_row(const struct model *m, const struct layer *l, const double *o,
                       const double *gate, double *out)
{
    const size_t d = m->hp.kda_head_dim;
    const float *norm = l->ssm_norm.data;
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += o[i] * o[i] / (double)d; /* of o * sqrt(d): the scale of the output is left */
    const double scale = 1 / sqrt(sum / (double)d + (double)m->hp.rms_eps) / sqrt((double)d);
    for (size_t i = 0; i < d; i++)
        out[i] = o[i] * scale * (double)norm[i] * sigmoid(gate[i]);
}

struct projections {
    double *q, *k, *v, *z, *beta, *gate;
};

static struct projections project(const struct layer *l, const double *h, size_t n)
{
    double *low = multiply(&l->f_a, h, n);
    struct projections p = {.q = multiply(&l->q, h, n),
                            .k = multiply(&l->k, h, n),
                            .v = multiply(&l->v, h, n),
                            .z = multiply(&l->f_b, low, n),
                            .beta = multiply(&l->beta, h, n)};
    mem_free(low);
    if (l->g.data) {
        p.gate = multiply(&l->g, h, n);
    } else {
        low = multiply(&l->g_a, h, n);
        p.gate = multiply(&l->g_b, low, n);
        mem_free(low);
    }
    convolve(p.q, &l->conv_q, n, l->q.n_rows);
    convolve(p.k, &l->conv_k, n, l->q.n_rows);
    convolve(p.v, &l->conv_v, n, l->q.n_rows);
    return p;
}

static void run_head(const struct model *m, const struct layer *l, const struct projections *p,
                     size_t head, size_t n, double *out)
{
    const size_t d = m->hp.kda_head_dim, width = d * m->hp.n_heads;
    const double eps = (double)m->hp.rms_eps;
    double *q = head_rows(p->q, n, width, head, d, eps),
           *k = head_rows(p->k, n, width, head, d, eps);
    double *v = head_rows(p->v, n, width, head, d, 0), *g = head_rows(p->z, n, width, head, d, 0);
    double *beta = mem_array(n, sizeof(*beta)), *o = mem_array(n * d, sizeof(*o));
    double *state = mem_zalloc(d * d * sizeof(*state));
    for (size_t r = 0; r < n; r++) {
        beta[r] = sigmoid(p->beta[r * m->hp.n_heads + head]);
        for (size_t i = 0; i < d; i++)
            g[r * d + i] = log_decay(m, l, g[r * d + i], head, head * d + i);
    }
    const struct kda_sequence s = {
        .q = q, .k = k, .v = v, .log_decay = g, .beta = beta, .n = n, .d = d};
    kda_chunked(&s, state, o);
    for (size_t r = 0; r < n; r++)
        finish_row(m, l, o + r * d, p->gate + r * width + head * d, out + r * width + head * d);
    double *all[] = {q, k, v, g, beta, o, state};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        mem_free(all[i]);
}

static double *oracle(const struct model *m, const struct layer *l, const struct step_rows *in)
{
    double *h = mem_array(in->n * in->n_cols, sizeof(*h));
    for (size_t i = 0; i < in->n * in->n_cols; i++)
        h[i] = (double)in->x[i];
    struct projections p = project(l, h, in->n);
    double *heads = mem_array(in->n * l->q.n_rows, sizeof(*heads));
    for (uint32_t head = 0; head < m->hp.n_heads; head++)
        run_head(m, l, &p, head, in->n, heads);
    double *out = multiply(&l->out, heads, in->n);
    double *all[] = {h, heads, p.q, p.k, p.v, p.z, p.beta, p.gate};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        mem_free(all[i]);
    return out;
}

/* ------------------------------------------------------------------ the tests */

static double rel_rms(const float *got, const double *want, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += pow((double)got[i] - want[i], 2);
        size += want[i] * want[i];
    }
    return sqrt(off / size);
}

/* Of what layer 0 gave for n ids in steps of `chunk` rows: its distance from the oracle. */
static double layer_error(const char *name, const char *arguments, uint32_t n, uint32_t chunk)
{
    char path[4096];
    int32_t ids[N_IDS];
    struct seen seen = {0};
    struct step_kit k;
    const struct step_kit_options o = {.max_rows = N_IDS,
                                       .max_logits = 1,
                                       .positions = N_IDS,
                                       .trace = watch,
                                       .trace_context = &seen};
    step_kit_open(&k, step_kit_model(name, arguments, path), &o);
    CHECK(k.model.layers[0].parts & PART_KDA);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 37 + 11) % k.model.hp.n_vocab);
    int slot = kv_reserve(k.kv, n);
    for (uint32_t at = 0; at < n; at += chunk)
        step_kit_run(&k, slot, ids, at, n - at < chunk ? n - at : chunk, 0);
    CHECK_INT(seen.in.n, n);
    CHECK_INT(seen.out.n, n);
    double *want = oracle(&k.model, &k.model.layers[0], &seen.in);
    const double off = rel_rms(seen.out.x, want, n * seen.out.n_cols);
    if (!(off <= 1e-6))
        test_fail(__FILE__, __LINE__, "%s, %u tokens by %u: rel rms %.1e", name, n, chunk, off);
    mem_free(want);
    mem_free(seen.in.x);
    mem_free(seen.out.x);
    step_kit_close(&k);
    return off;
}

static void note_worst(const double *off, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, off[i]);
    test_note("delta attention, exact: rel rms at most %.1e (<= 1e-06)", worst);
}

#define SMALL " --embd 64 --ff 32 --expert-ff 32 --vocab 264 --type F32 "

#define LINEAR "--arch kimi-linear" SMALL
#define K3 "--arch kimi-k3 --latent 32" SMALL

/* The start of a sequence: fewer tokens than the convolution reads, and every way past it. */
TEST(kda_layer_at_the_start_of_a_sequence)
{
    double off[15];
    for (uint32_t n = 1; n <= 5; n++) {
        off[3 * n - 3] = layer_error("linear", LINEAR, n, n);
        off[3 * n - 2] = layer_error("linear", LINEAR, n, 1);
        off[3 * n - 1] = layer_error("k3", K3, n, 2);
    }
    note_worst(off, 15);
}

TEST(kda_layer_equals_the_chunked_form)
{
    const double off[] = {layer_error("linear", LINEAR, N_IDS, N_IDS),
                          layer_error("k3", K3, N_IDS, N_IDS), layer_error("k3", K3, N_IDS, 7)};
    note_worst(off, 3);
}

TEST(kda_layer_of_odd_sizes)
{
    const double off[] = {layer_error("odd", "--heads 3 --kda-dim 20 --conv 7 " LINEAR, 40, 13),
                          layer_error("two-taps", "--heads 5 --kda-dim 9 --conv 2 " K3, 30, 11),
                          layer_error("wide", "--heads 96 --kda-dim 128 " K3, 6, 4)};
    note_worst(off, 3);
}
