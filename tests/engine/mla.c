/*
 * Latent attention against the form it replaces: keys and values of every head, expanded, in f64, with
 * the formulas of engine-spec 4.1 and 4.3. What the block read and gave comes from the trace, weights
 * from the file's own tensors; nothing here goes through k_b's or the cache's code.
 */
#include "base/alloc.h"
#include "base/numeric.h"
#include "engine/local/plan.h"
#include "engine/model/arch.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 150 /* three pages */

/* ------------------------------------------------------------------ what the block read and gave */

struct seen {
    struct step_rows in, out; /* of layer 0: attn_norm, mla_out */
};

static void watch(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows)
{
    struct seen *s = context;
    if (layer == 0 && strcmp(name, "attn_norm") == 0)
        step_rows_add(&s->in, x, n_cols, n_rows);
    if (layer == 0 && strcmp(name, "mla_out") == 0)
        step_rows_add(&s->out, x, n_cols, n_rows);
}

static void seen_release(struct seen *s)
{
    mem_free(s->in.x);
    mem_free(s->out.x);
}

/* ------------------------------------------------------------------ the oracle */

struct oracle {
    const struct hparams *hp;
    const struct layer *l;
    uint32_t nope, rot, lora, value;
    double *c;    /* [n][lora] */
    double *k_pe; /* [n][rot] */
    double *q;    /* [n][n_heads][nope + rot] */
    size_t n;
};

static float *floats(const struct tensor *t)
{
    float *out = mem_array(t->n_rows * t->n_cols, sizeof(*out));
    CHECK(out && t->data);
    for (uint64_t r = 0; r < t->n_rows; r++)
        t->quant->decode((const char *)t->data + r * t->row_bytes, out + r * t->n_cols, t->n_cols);
    return out;
}

static double dot(const float *w, const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)w[i] * x[i];
    return sum;
}

/* y [n][rows] = W x */
static double *multiply(const struct tensor *t, const double *x, size_t n)
{
    float *w = floats(t);
    double *y = mem_array(n * t->n_rows, sizeof(*y));
    for (size_t r = 0; r < n; r++) {
        for (uint64_t i = 0; i < t->n_rows; i++)
            y[r * t->n_rows + i] = dot(w + i * t->n_cols, x + r * t->n_cols, t->n_cols);
    }
    mem_free(w);
    return y;
}

static void normalise(double *x, const struct tensor *w, size_t n, double eps)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    double factor = 1 / sqrt(squares / (double)n + eps);
    for (size_t i = 0; i < n; i++)
        x[i] *= factor * (double)((const float *)w->data)[i];
}

/* Neighbours turned together, stretched by YaRN where the file has it. */
static void turn(const struct rope_params *p, double position, double *x)
{
    const double pi = 3.14159265358979323846;
    const double base = (double)p->freq_base, n = p->n_rot;
    if (p->none)
        return;
    for (uint32_t i = 0; i < p->n_rot / 2; i++) {
        double plain = position * pow(base, -2.0 * i / n), mix = 0;
        if (p->ext_factor != 0) {
            double low =
                floor(n * log(p->n_ctx_orig / ((double)p->beta_fast * 2 * pi)) / (2 * log(base)));
            double high =
                ceil(n * log(p->n_ctx_orig / ((double)p->beta_slow * 2 * pi)) / (2 * log(base)));
            low = fmax(low, 0);
            high = fmin(high, n - 1);
            mix = 1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)));
        }
        double angle = plain * (double)p->freq_scale * (1 - mix) + plain * mix;
        double a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos(angle) - b * sin(angle);
        x[2 * i + 1] = a * sin(angle) + b * cos(angle);
    }
}

static void oracle_queries(struct oracle *o, const double *h)
{
    const uint32_t dim = o->nope + o->rot;
    if (o->l->parts & PART_Q_LORA) {
        double *low = multiply(&o->l->q_a, h, o->n);
        for (size_t r = 0; r < o->n; r++)
            normalise(low + r * o->hp->q_lora, &o->l->q_a_norm, o->hp->q_lora,
                      (double)o->hp->rms_eps);
        o->q = multiply(&o->l->q_b, low, o->n);
        mem_free(low);
    } else {
        o->q = multiply(&o->l->q, h, o->n);
    }
    for (size_t r = 0; r < o->n; r++) {
        for (uint32_t j = 0; j < o->hp->n_heads; j++)
            turn(&o->hp->rope, (double)r, o->q + (r * o->hp->n_heads + j) * dim + o->nope);
    }
}

static void oracle_init(struct oracle *o, const struct model *m, const double *h, size_t n)
{
    const struct hparams *hp = &m->hp;
    *o = (struct oracle){.hp = hp,
                         .l = &m->layers[0],
                         .n = n,
                         .nope = hp->head_dim - hp->rope.n_rot,
                         .rot = hp->rope.n_rot,
                         .lora = hp->kv_lora,
                         .value = hp->value_dim};
    const size_t width = o->lora + o->rot;
    double *kv = multiply(&o->l->kv_a, h, n);
    o->c = mem_array(n * o->lora, sizeof(double));
    o->k_pe = mem_array(n * o->rot, sizeof(double));
    for (size_t r = 0; r < n; r++) {
        memcpy(o->c + r * o->lora, kv + r * width, o->lora * sizeof(double));
        memcpy(o->k_pe + r * o->rot, kv + r * width + o->lora, o->rot * sizeof(double));
        normalise(o->c + r * o->lora, &o->l->kv_a_norm, o->lora, (double)hp->rms_eps);
        turn(&hp->rope, (double)r, o->k_pe + r * o->rot);
    }
    mem_free(kv);
    oracle_queries(o, h);
}

static void oracle_release(struct oracle *o)
{
    mem_free(o->c);
    mem_free(o->k_pe);
    mem_free(o->q);
}

/* Head j's own matrices, [nope][lora] and [value][lora], from whichever tensors the file has. */
static void head_matrices(const struct oracle *o, const float *k_b, const float *v_b,
                          const float *kv_b, uint32_t j, double *keys, double *values)
{
    for (uint32_t i = 0; i < o->nope; i++) {
        for (uint32_t c = 0; c < o->lora; c++)
            keys[i * o->lora + c] =
                kv_b ? (double)kv_b[(j * (o->nope + o->value) + i) * (size_t)o->lora + c]
                     : (double)k_b[((size_t)j * o->lora + c) * o->nope + i];
    }
    for (uint32_t i = 0; i < o->value; i++) {
        for (uint32_t c = 0; c < o->lora; c++)
            values[i * o->lora + c] =
                kv_b ? (double)kv_b[(j * (o->nope + o->value) + o->nope + i) * (size_t)o->lora + c]
                     : (double)v_b[((size_t)j * o->value + i) * o->lora + c];
    }
}

/* y = m c for each of n rows */
static void expand(const double *m, uint32_t rows, const double *c, uint32_t cols, size_t n,
                   double *y)
{
    for (size_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < rows; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < cols; k++)
                sum += m[i * cols + k] * c[r * cols + k];
            y[r * rows + i] = sum;
        }
    }
}

/* out [value] = attention of row t's head j over expanded keys and values of rows 0..t */
static void oracle_head(const struct oracle *o, uint32_t j, size_t t, const double *keys,
                        const double *values, double *out)
{
    const double *q = o->q + (t * o->hp->n_heads + j) * (o->nope + o->rot);
    double *score = mem_array(t + 1, sizeof(*score));
    double top = -INFINITY, sum = 0;
    for (size_t s = 0; s <= t; s++) {
        score[s] = 0;
        for (uint32_t i = 0; i < o->nope; i++)
            score[s] += q[i] * keys[s * o->nope + i];
        for (uint32_t i = 0; i < o->rot; i++)
            score[s] += q[o->nope + i] * o->k_pe[s * o->rot + i];
        score[s] *= (double)o->hp->attention_scale;
        top = fmax(top, score[s]);
    }
    memset(out, 0, o->value * sizeof(*out));
    for (size_t s = 0; s <= t; s++) {
        double w = exp(score[s] - top);
        sum += w;
        for (uint32_t i = 0; i < o->value; i++)
            out[i] += w * values[s * o->value + i];
    }
    for (uint32_t i = 0; i < o->value; i++)
        out[i] /= sum;
    mem_free(score);
}

/* [n - first][n_embd]: what latent attention should give for rows from `first` on. */
static double *oracle_attend(struct oracle *o, const double *h, size_t first)
{
    const struct layer *l = o->l;
    const bool old = l->parts & PART_EXPANDED;
    const size_t n_out = o->n - first, width = (size_t)o->hp->n_heads * o->value;
    float *kv_b = old ? floats(&l->kv_b) : NULL;
    float *k_b = old ? NULL : floats(&l->k_b), *v_b = old ? NULL : floats(&l->v_b);
    double *m_keys = mem_array((size_t)o->nope * o->lora, sizeof(double));
    double *m_values = mem_array((size_t)o->value * o->lora, sizeof(double));
    double *keys = mem_array(o->n * o->nope, sizeof(double));
    double *values = mem_array(o->n * o->value, sizeof(double));
    double *heads = mem_array(n_out * width, sizeof(double));
    for (uint32_t j = 0; j < o->hp->n_heads; j++) {
        head_matrices(o, k_b, v_b, kv_b, j, m_keys, m_values);
        expand(m_keys, o->nope, o->c, o->lora, o->n, keys);
        expand(m_values, o->value, o->c, o->lora, o->n, values);
        for (size_t t = first; t < o->n; t++)
            oracle_head(o, j, t, keys, values, heads + (t - first) * width + j * o->value);
    }
    if (l->attn_gate.data) {
        double *gate = multiply(&l->attn_gate, h + first * o->hp->n_embd, n_out);
        for (size_t i = 0; i < n_out * width; i++)
            heads[i] /= 1 + exp(-gate[i]);
        mem_free(gate);
    }
    double *y = multiply(&l->out, heads, n_out);
    mem_free(kv_b);
    mem_free(k_b);
    mem_free(v_b);
    mem_free(m_keys);
    mem_free(m_values);
    mem_free(keys);
    mem_free(values);
    mem_free(heads);
    return y;
}

static double rel_rms(const float *got, const double *want, size_t n)
{
    double diff = 0, ref = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        ref += want[i] * want[i];
    }
    CHECK(ref > 0);
    return sqrt(diff / ref);
}

static double *doubles(const float *x, size_t n)
{
    double *out = mem_array(n, sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = (double)x[i];
    return out;
}

/* The cached row of a position is [norm(latent) | turned part], whatever the heads. */
static void check_cache(const struct step_kit *k, const struct oracle *o, int slot)
{
    const size_t width = o->lora + o->rot;
    for (size_t t = 0; t < o->n; t++) {
        const float *page = kv_keys(k->kv, slot, 0, (uint32_t)t / KV_PAGE);
        const float *row = page + t % KV_PAGE * width;
        CHECK(rel_rms(row, o->c + t * o->lora, o->lora) < 1e-6);
        CHECK(rel_rms(row + o->lora, o->k_pe + t * o->rot, o->rot) < 1e-5);
    }
}

/* The last n_out of n positions of layer 0, in chunks of `chunk`; isa NULL: exact. */
static void check_block(const char *name, const char *arguments, const char *isa,
                        void (*change)(struct model *m), uint32_t n, uint32_t n_out, double limit)
{
    char path[4096];
    int32_t ids[N_IDS];
    struct seen seen = {0};
    struct step_kit k;
    struct oracle o;
    const struct step_kit_options options = {.isa = isa,
                                             .max_rows = n,
                                             .max_logits = 1,
                                             .positions = n,
                                             .change = change,
                                             .trace = watch,
                                             .trace_context = &seen};
    step_kit_open(&k, step_kit_model(name, arguments, path), &options);
    step_kit_ids(ids, n, k.model.hp.n_vocab, 0);
    int slot = kv_reserve(k.kv, n);
    step_kit_run(&k, slot, ids, 0, n, 1);
    CHECK_INT(seen.in.n, n);
    CHECK_INT(seen.out.n, n);
    double *h = doubles(seen.in.x, n * seen.in.n_cols);
    oracle_init(&o, &k.model, h, n);
    double *want = oracle_attend(&o, h, n - n_out);
    double error =
        rel_rms(seen.out.x + (n - n_out) * seen.out.n_cols, want, n_out * seen.out.n_cols);
    test_note("%s %s: rel rms %.1e (<= %.0e)", name, isa ? isa : "exact", error, limit);
    CHECK(error <= limit);
    if (!isa)
        check_cache(&k, &o, slot);
    mem_free(want);
    mem_free(h);
    oracle_release(&o);
    kv_release(k.kv, slot);
    step_kit_close(&k);
    seen_release(&seen);
}

#define SMALL "--arch deepseek2 --vocab 300 --layers 2 "

TEST(mla_absorbed_is_expanded)
{
    check_block("f32", SMALL "--type F32", NULL, NULL, N_IDS, N_IDS, 1e-6);
    check_block("q8", SMALL "--type Q8_0", NULL, NULL, N_IDS, N_IDS, 1e-6);
    check_block("plain", SMALL "--type Q4_K --no-yarn", NULL, NULL, N_IDS, N_IDS, 1e-6);
    check_block("f32", SMALL "--type F32", "auto", NULL, N_IDS, N_IDS, 3e-3);
    check_block("q8", SMALL "--type Q8_0", "auto", NULL, N_IDS, N_IDS, 3e-2);
}

/* A query of full rank. */
TEST(mla_without_a_low_rank_query)
{
    check_block("lite", SMALL "--q-lora 0 --type Q5_0", NULL, NULL, N_IDS, N_IDS, 1e-6);
}

/* attn_kv_b is what the file has; the oracle never sees k_b and v_b. */
TEST(mla_of_older_files)
{
    check_block("old", SMALL "--legacy --type Q4_K", NULL, NULL, N_IDS, N_IDS, 1e-6);
    check_block("old", SMALL "--legacy --type Q4_K", "auto", NULL, N_IDS, N_IDS, 5e-2);
    check_block("old16", SMALL "--legacy --type BF16", "auto", NULL, N_IDS, N_IDS, 3e-3);
}

static void still(struct model *m)
{
    m->hp.rope.none = true;
}

/* Kimi-Linear and Kimi-K3: the part with the position is there and is not turned. */
TEST(mla_that_does_not_turn)
{
    check_block("f32", SMALL "--type F32", NULL, still, N_IDS, N_IDS, 1e-6);
}

static float gate_weights[256 * 512];

static void gated(struct model *m)
{
    const struct hparams *hp = &m->hp;
    const size_t rows = (size_t)hp->n_heads * hp->value_dim;
    still(m);
    CHECK(rows * hp->n_embd <= ARRAY_LEN(gate_weights));
    for (size_t i = 0; i < rows * hp->n_embd; i++)
        gate_weights[i] = 0.1f * (float)((int)(i * 7919 % 2003) - 1001) / 1001;
    m->layers[0].attn_gate = (struct tensor){.quant = &quant_f32,
                                             .n_cols = hp->n_embd,
                                             .n_rows = rows,
                                             .n_slices = 1,
                                             .row_bytes = hp->n_embd * sizeof(float),
                                             .data = gate_weights};
}

/* Kimi-K3: the heads' results times the sigmoid of the gate. */
TEST(mla_with_an_output_gate)
{
    check_block("f32", SMALL "--type F32", NULL, gated, N_IDS, N_IDS, 1e-6);
}

/* The same of their own files. */
TEST(mla_of_kimi)
{
    check_block("linear", "--arch kimi-linear --vocab 300 --layers 2 --mla-layers 0 --type Q8_0",
                NULL, NULL, N_IDS, N_IDS, 1e-6);
    check_block("k3", "--arch kimi-k3 --vocab 300 --layers 2 --mla-layers 0 --type Q4_K", NULL,
                NULL, N_IDS, N_IDS, 1e-6);
    check_block("k3-old",
                "--arch kimi-k3 --vocab 300 --layers 2 --mla-layers 0 --legacy --type F32", NULL,
                NULL, N_IDS, N_IDS, 1e-6);
}

/* As wide as Kimi-K3's: 96 heads of 128 + 64, rows of 512 + 64. */
TEST(mla_at_full_width)
{
    static const char wide[] =
        SMALL "--heads 96 --nope 128 --rope 64 --v-dim 128 --kv-lora 512 --q-lora 256 --type Q8_0";
    check_block("wide", wide, NULL, NULL, 9, 1, 1e-6);
    check_block("wide", wide, "auto", NULL, 9, 1, 3e-2);
}

/* ------------------------------------------------------------------ keys and plan */

struct bound {
    struct gguf *gguf;
    struct model model;
};

static int bind(struct bound *b, const char *name, const char *arguments, struct error *e)
{
    char path[4096];
    CHECK_OK(gguf_open(&b->gguf, step_kit_model(name, arguments, path), e), e);
    int rc = model_bind(&b->model, b->gguf, e);
    if (rc != 0)
        gguf_close(b->gguf);
    return rc;
}

static void unbind(struct bound *b)
{
    model_release(&b->model);
    gguf_close(b->gguf);
}

static void check_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6))
        test_fail(__FILE__, __LINE__, "%.7f, want %.6f", got, want);
}

/* Kimi-K2's file, its factor 32; then 64, as the later ones have; then none. */
TEST(mla_scale_of_the_softmax_with_yarn)
{
    struct bound b;
    struct error e = {0};
    CHECK_OK(bind(&b, "k2", "--like Kimi-K2 --sparse --vocab 300", &e), &e);
    struct hparams *hp = &b.model.hp;
    check_near((double)hp->attention_scale, 0.130861);
    check_near((double)hp->rope.attn_factor * (1 + 0.1 * log(32)), 1);
    hp->attention_scale = 1 / sqrtf(192);
    hp->rope.freq_scale = 1.0f / 64;
    hp->rope.attn_factor = 1;
    CHECK_OK(b.model.arch->configure(&b.model, &e), &e);
    check_near((double)hp->attention_scale, 0.144680);
    check_near((double)hp->rope.attn_factor * (1 + 0.1 * log(64)), 1);
    unbind(&b);
    CHECK_OK(bind(&b, "none", "--like Kimi-K2 --sparse --vocab 300 --no-yarn", &e), &e);
    check_near((double)b.model.hp.attention_scale, 1 / sqrt(192));
    unbind(&b);
}

/* One row of kv_lora + rope halves a position and layer, however many heads. */
TEST(mla_bytes_of_a_position)
{
    struct bound b;
    struct engine_plan p;
    struct error e = {0};
    CHECK_OK(bind(&b, "k2", "--like Kimi-K2 --sparse --vocab 300", &e), &e);
    const struct kv_shape shape = model_kv_shape(&b.model, false);
    CHECK_INT(shape.n_layers, b.model.hp.n_layers);
    CHECK_INT(kv_sequence_bytes(&shape, KV_PAGE), (uint64_t)61 * 576 * 2 * KV_PAGE);
    CHECK_INT(kv_sequence_bytes(&shape, KV_PAGE + 1), (uint64_t)61 * 576 * 2 * KV_PAGE * 2);
    const struct plan_input in = {.model = &b.model, .path = "k2", .ctx = 4096, .slots = 1};
    CHECK_OK(plan_make(&p, &in, &e), &e);
    CHECK_INT(p.repacked_bytes, 0);
    CHECK(p.per_token_bytes >= 61 * 576 * 2 && p.per_token_bytes < 61 * 576 * 2 + 64);
    unbind(&b);
}

/* What older files need beside their own bytes is planned, taken, and given back. */
TEST(mla_bytes_of_older_files)
{
    struct bound b;
    struct ledger *l;
    struct engine_plan p;
    struct error e = {0};
    CHECK_OK(bind(&b, "old", SMALL "--legacy --type Q4_K", &e), &e);
    const struct hparams *hp = &b.model.hp;
    const uint64_t keys = (uint64_t)hp->n_heads * hp->kv_lora * (hp->head_dim - hp->rope.n_rot) *
                          sizeof(float) * hp->n_layers;
    CHECK_INT(model_repacked_bytes(&b.model, 0), keys);
    const struct plan_input in = {.model = &b.model, .path = "old", .ctx = 128, .slots = 1};
    CHECK_OK(plan_make(&p, &in, &e), &e);
    CHECK(p.repacked_bytes >= keys && p.repacked_bytes < keys + 4096);
    CHECK_OK(ledger_new(&l, p.trunk_bytes + p.repacked_bytes, &e), &e);
    const struct model_load_options o = {.ledger = l};
    CHECK_OK(model_load(&b.model, &o, &e), &e);
    CHECK_INT(ledger_used(l, LEDGER_TRUNK), p.trunk_bytes + p.repacked_bytes);
    model_release(&b.model);
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
    CHECK_OK(model_bind(&b.model, b.gguf, &e), &e);
    CHECK_OK(ledger_new(&l, p.trunk_bytes + p.repacked_bytes - 1, &e), &e);
    CHECK_ERROR(model_load(&b.model, &(struct model_load_options){.ledger = l}, &e), &e,
                ERROR_BUDGET, "attn_kv_b");
    unbind(&b);
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
}

TEST(mla_load_of_older_files_survives_every_failing_allocation)
{
    struct bound b;
    struct ledger *l;
    struct error e = {0};
    int rc = -1;
    CHECK_OK(bind(&b, "old", SMALL "--legacy --type Q4_K", &e), &e);
    CHECK_OK(ledger_new(&l, 1 << 28, &e), &e);
    for (long k = 1; rc != 0; k++) {
        CHECK(k < 100);
        mem_fail_after(k);
        rc = model_load(&b.model, &(struct model_load_options){.ledger = l}, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        model_release(&b.model);
        CHECK_INT(ledger_total(l), 0);
        CHECK_OK(model_bind(&b.model, b.gguf, &e), &e);
    }
    unbind(&b);
    ledger_free(l);
}

/* Each breaks one thing; the sentence names it. */
TEST(mla_refuses_what_is_wrong_by_name)
{
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        {"--omit blk.1.attn_k_b.weight", "'blk.1.attn_k_b.weight' is missing"},
        {"--omit blk.1.attn_v_b.weight", "'blk.1.attn_v_b.weight' is missing"},
        {"--omit blk.0.attn_kv_a_mqa.weight", "'blk.0.attn_kv_a_mqa.weight' is missing"},
        {"--omit blk.0.attn_kv_a_norm.weight", "'blk.0.attn_kv_a_norm.weight' is missing"},
        {"--omit blk.0.attn_q_a.weight", "'blk.0.attn_q_a.weight' is missing"},
        {"--omit blk.0.attn_q_a_norm.weight", "'blk.0.attn_q_a_norm.weight' is missing"},
        {"--omit blk.0.attn_q_b.weight", "'blk.0.attn_q_b.weight' is missing"},
        {"--omit blk.1.attn_output.weight", "'blk.1.attn_output.weight' is missing"},
        {"--q-lora 0 --omit blk.0.attn_q.weight", "'blk.0.attn_q.weight' is missing"},
        {"--legacy --omit blk.1.attn_kv_b.weight", "'blk.1.attn_k_b.weight' is missing"},
        {"--extra blk.0.attn_kv_b.weight", "'blk.0.attn_kv_b.weight' is not part"},
        {"--legacy --extra blk.0.attn_k_b.weight", "'blk.0.attn_v_b.weight' is missing"},
        {"--extra blk.0.attn_q.weight", "'blk.0.attn_q.weight' is not part"},
        {"--misshape blk.0.attn_k_b.weight", "tensor 'blk.0.attn_k_b.weight': "},
        {"--misshape blk.0.attn_v_b.weight", "tensor 'blk.0.attn_v_b.weight': "},
        {"--misshape blk.1.attn_kv_a_mqa.weight", "tensor 'blk.1.attn_kv_a_mqa.weight': "},
        {"--misshape blk.1.attn_kv_a_norm.weight", "tensor 'blk.1.attn_kv_a_norm.weight': "},
        {"--misshape blk.1.attn_q_a.weight", "tensor 'blk.1.attn_q_a.weight': "},
        {"--misshape blk.1.attn_q_b.weight", "tensor 'blk.1.attn_q_b.weight': "},
        {"--legacy --misshape blk.1.attn_kv_b.weight", "tensor 'blk.1.attn_kv_b.weight': "},
        {"--omit-key deepseek2.attention.kv_lora_rank", "deepseek2.attention.kv_lora_rank"},
        {"--set-key deepseek2.attention.kv_lora_rank=0", "kv_lora_rank is 0, must be 1 to"},
        {"--set-key deepseek2.attention.kv_lora_rank=4000000000", "kv_lora_rank is 4000000000"},
        {"--set-key deepseek2.attention.q_lora_rank=4000000000", "q_lora_rank is 4000000000"},
        {"--set-key deepseek2.attention.q_lora_rank=96", "tensor 'blk.0.attn_q_a.weight': "},
        {"--set-key deepseek2.rope.dimension_count=48", "dimension_count is 48, must be less"},
        {"--set-key deepseek2.rope.dimension_count=15", "rope.dimension_count is 15"},
        {"--set-key deepseek2.attention.key_length_mla=70000", "key_length is 70000"},
        {"--set-key deepseek2.attention.key_length_mla=64", "tensor 'blk.0.attn_q_b.weight': "},
        {"--set-key deepseek2.attention.value_length_mla=64", "tensor 'blk.0.attn_v_b.weight': "},
        {"--set-key deepseek2.attention.value_length_mla=70000", "value_length is 70000"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[32], arguments[256];
        struct bound b;
        struct error e = {0};
        snprintf(name, sizeof(name), "bad%zu", i);
        snprintf(arguments, sizeof(arguments), SMALL "--sparse %s", cases[i].arguments);
        int rc = bind(&b, name, arguments, &e);
        if (rc != -ERROR_FORMAT || !strstr(e.text, cases[i].part))
            test_fail(__FILE__, __LINE__, "%s: %d, \"%s\"", cases[i].arguments, rc, e.text);
    }
}
