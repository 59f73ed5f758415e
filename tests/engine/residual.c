/*
 * Attention residuals against their definition (engine-spec 4.5) in f64: what every layer adds is taken from
 * the trace, what every layer read must then be the mix of checkpoints and stream that follows from it.
 */
#include "base/alloc.h"
#include "engine/model/arch.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 70 /* more than a block of rows */
#define N_EMBD 64
#define N_LAYERS 6

/* Rows of one name in one layer. */
struct seen {
    float attention[N_LAYERS][N_IDS][N_EMBD]; /* what attention added */
    float attn_norm[N_LAYERS][N_IDS][N_EMBD]; /* normed mix before it */
    float before[N_LAYERS][N_IDS][N_EMBD];    /* the stream between */
    float ffn_norm[N_LAYERS][N_IDS][N_EMBD];
    float after[N_LAYERS][N_IDS][N_EMBD]; /* the stream at the end */
    float result_norm[N_IDS][N_EMBD];
    size_t n[N_LAYERS + 1][6];
};

static void watch(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows)
{
    static const char *const names[] = {"kda_out",  "attn_norm", "prefix_sum_attn",
                                        "ffn_norm", "l_out",     "result_norm"};
    struct seen *s = context;
    const size_t il = layer < N_LAYERS ? layer : 0; /* the head is behind the last */
    if (strcmp(name, "mla_out") == 0)
        name = names[0];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        float(*const places[])[N_EMBD] = {s->attention[il], s->attn_norm[il], s->before[il],
                                          s->ffn_norm[il],  s->after[il],     s->result_norm};
        if (strcmp(name, names[i]) != 0)
            continue;
        CHECK_INT(n_cols, N_EMBD);
        CHECK(s->n[layer][i] + n_rows <= N_IDS);
        memcpy(places[i][s->n[layer][i]], x, n_rows * n_cols * sizeof(*x));
        s->n[layer][i] += n_rows;
    }
}

/* ------------------------------------------------------------------ the oracle: one row */

struct oracle {
    double checkpoint[N_LAYERS][N_EMBD];
    size_t n_checkpoints;
    double stream[N_EMBD];
    double eps;
};

static double rms_scale(const double *x, double eps)
{
    double sum = 0;
    for (size_t i = 0; i < N_EMBD; i++)
        sum += x[i] * x[i];
    return 1 / sqrt(sum / N_EMBD + eps);
}

static double score(const double *x, const struct tensor *w, double eps)
{
    double sum = 0;
    for (size_t i = 0; i < N_EMBD; i++)
        sum += x[i] * rms_scale(x, eps) * (double)((const float *)w->data)[i];
    return sum;
}

/* norm(mix) * norm weights */
static void normed_mix(const struct oracle *o, const struct tensor *w, const struct tensor *norm,
                       double out[N_EMBD])
{
    double mix[N_EMBD] = {0};
    double total = 0;
    for (size_t s = 0; s <= o->n_checkpoints; s++) {
        const double *source = s < o->n_checkpoints ? o->checkpoint[s] : o->stream;
        const double p = o->n_checkpoints ? exp(score(source, w, o->eps)) : 1;
        for (size_t i = 0; i < N_EMBD; i++)
            mix[i] += p * source[i];
        total += p;
    }
    for (size_t i = 0; i < N_EMBD; i++)
        mix[i] /= total;
    const double scale = rms_scale(mix, o->eps);
    for (size_t i = 0; i < N_EMBD; i++)
        out[i] = mix[i] * scale * (double)((const float *)norm->data)[i];
}

static void check_row(const char *what, uint32_t layer, const float *got, const double *want)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < N_EMBD; i++) {
        off += pow((double)got[i] - want[i], 2);
        size += want[i] * want[i];
    }
    if (!(off <= 1e-12 * size))
        test_fail(__FILE__, __LINE__, "%s of layer %u: rel rms %.1e", what, layer,
                  sqrt(off / size));
}

static void embed(const struct model *m, int32_t id, double out[N_EMBD])
{
    float row[N_EMBD];
    const struct tensor *t = &m->token_embd;
    t->quant->decode((const char *)t->data + (size_t)id * t->row_bytes, row, N_EMBD);
    for (size_t i = 0; i < N_EMBD; i++)
        out[i] = (double)row[i];
}

/* The stream restarts at a banked layer: what is there is what attention added, to the bit. */
static void check_stream(const struct seen *s, uint32_t il, size_t r, bool banked)
{
    const float *added = s->attention[il][r], *stream = s->before[il][r];
    bool same = true;
    for (size_t i = 0; i < N_EMBD; i++)
        same = same && added[i] == stream[i];
    CHECK(same == banked);
}

static void check_sequence(const struct model *m, const struct seen *s, const int32_t *ids,
                           size_t r)
{
    struct oracle o = {.eps = (double)m->hp.rms_eps};
    double want[N_EMBD];
    embed(m, ids[r], o.stream);
    for (uint32_t il = 0; il < N_LAYERS; il++) {
        const struct layer *l = &m->layers[il];
        const bool banked = il % m->hp.attn_res_block == 0;
        normed_mix(&o, &l->attn_res, &l->attn_norm, want);
        check_row("attn_norm", il, s->attn_norm[il][r], want);
        if (banked) {
            memcpy(o.checkpoint[o.n_checkpoints++], o.stream, sizeof(o.stream));
            memset(o.stream, 0, sizeof(o.stream));
        }
        check_stream(s, il, r, banked);
        for (size_t i = 0; i < N_EMBD; i++)
            o.stream[i] += (double)s->attention[il][r][i];
        normed_mix(&o, &l->ffn_res, &l->ffn_norm, want);
        check_row("ffn_norm", il, s->ffn_norm[il][r], want);
        for (size_t i = 0; i < N_EMBD; i++)
            o.stream[i] += (double)s->after[il][r][i] - (double)s->before[il][r][i];
        check_row("l_out", il, s->after[il][r], o.stream);
    }
    normed_mix(&o, &m->output_res, &m->output_norm, want);
    check_row("result_norm", 0, s->result_norm[r], want);
}

static void check_block_size(uint32_t block, uint32_t chunk)
{
    char path[4096], name[32], arguments[256];
    int32_t ids[N_IDS];
    struct seen *seen = mem_zalloc(sizeof(*seen));
    struct step_kit k;
    const struct step_kit_options o = {.max_rows = N_IDS,
                                       .max_logits = N_IDS,
                                       .positions = N_IDS,
                                       .trace = watch,
                                       .trace_context = seen};
    snprintf(name, sizeof(name), "res%u", block);
    snprintf(
        arguments, sizeof(arguments),
        "--arch kimi-k3 --layers %d --res-block %u --embd %d --ff 32 --expert-ff 32 --latent 32 "
        "--vocab 264 --type F32",
        N_LAYERS, block, N_EMBD);
    step_kit_open(&k, step_kit_model(name, arguments, path), &o);
    CHECK_INT(k.model.hp.attn_res_block, block);
    for (uint32_t i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)((i * 37 + 11) % k.model.hp.n_vocab);
    int slot = kv_reserve(k.kv, N_IDS);
    for (uint32_t at = 0; at < N_IDS; at += chunk) {
        uint32_t n = N_IDS - at < chunk ? N_IDS - at : chunk;
        step_kit_run(&k, slot, ids, at, n, n);
    }
    for (size_t r = 0; r < N_IDS; r++)
        check_sequence(&k.model, seen, ids, r);
    step_kit_close(&k);
    mem_free(seen);
}

TEST(residual_attention_of_every_block_size)
{
    check_block_size(1, N_IDS);
    check_block_size(2, 9);
    check_block_size(3, N_IDS);
    check_block_size(N_LAYERS, N_IDS);
    check_block_size(N_LAYERS + 5, N_IDS); /* the embedding is the only checkpoint */
}
