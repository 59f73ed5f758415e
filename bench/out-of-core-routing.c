/*
 * out-of-core-routing MODEL IDS [--balance ROUNDS] [--tokens N] [--isa NAME] [--threads N]
 *
 * How skewed and how persistent the routing of a model is over a text of token ids (numbers with commas
 * between them, a file): what neighbouring tokens share of a layer's experts, what share of a layer's
 * experts 32 tokens touch, and the Gini coefficient of how often each is chosen. Exit status 1 where the
 * first two are not what was measured of Kimi-K3: 0.37 +- 0.07 and 0.21 +- 0.05.
 *
 * --balance first sets the selection biases in the file (exp_probs_b) so that over tokens drawn from the
 * whole vocabulary each expert is chosen about equally often, as a trained router's are: ROUNDS times,
 * since what a layer chooses changes what the next ones see.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/numeric.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "bench/ids.h"
#include "engine/model/step.h"

enum { STEP_ROWS = 512, WINDOW = 32 };

/* What was measured of Kimi-K3, and how far a model of this benchmark may be from it. */
static const double neighbours_goal = 0.37, neighbours_slack = 0.07;
static const double window_goal = 0.21, window_slack = 0.05;

struct rows {
    float *x; /* [n][n_cols] */
    size_t n, n_cols;
};

struct routing {
    const char *path, *isa;
    uint32_t n_tokens, rounds;
    struct ledger *ledger;
    struct gguf *gguf;
    struct model model;
    struct expert_store *experts;
    struct kv_pool *kv;
    struct forward *forward;
    const char *wanted; /* of the trace */
    struct rows *rows;  /* [n_layers] of it */
};

static void keep(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                 uint32_t n_rows)
{
    struct routing *r = context;
    if (strcmp(name, r->wanted) != 0)
        return;
    struct rows *to = &r->rows[layer];
    to->x = mem_regrow(to->x, (to->n + n_rows) * n_cols, sizeof(*to->x));
    if (!to->x) {
        fputs("out-of-core-routing: no memory for the trace\n", stderr);
        exit(1);
    }
    memcpy(to->x + to->n * n_cols, x, n_rows * n_cols * sizeof(*x));
    to->n_cols = n_cols;
    to->n += n_rows;
}

static void forget(struct routing *r)
{
    for (uint32_t il = 0; r->rows && il < r->model.hp.n_layers; il++) {
        mem_free(r->rows[il].x);
        r->rows[il] = (struct rows){0};
    }
}

/* Few slots: a step takes each expert of a layer once, however many rows want it. */
static int open_model(struct routing *r, struct error *e)
{
    const struct model_load_options load = {.ledger = r->ledger};
    const struct model_experts_options experts = {.ledger = r->ledger, .n_slots = 512};
    const struct kernels *kernels;
    int rc = gguf_open(&r->gguf, r->path, e);
    if (rc != 0 || (rc = model_bind(&r->model, r->gguf, e)) != 0 ||
        (rc = kernels_pick(r->isa, &kernels, e)) != 0 ||
        (rc = model_load(&r->model, &load, e)) != 0)
        return rc;
    const struct kv_shape shape = model_kv_shape(&r->model, false);
    const struct hparams *hp = &r->model.hp;
    r->rows = mem_array(hp->n_layers, sizeof(*r->rows));
    if (!r->rows || hp->n_experts == 0)
        return error_set(e, ERROR_UNSUPPORTED, "%s has no experts", r->path);
    if ((rc = kv_pool_new(&r->kv, r->ledger, &shape, kv_sequence_bytes(&shape, r->n_tokens), 1,
                          r->n_tokens, e)) != 0 ||
        (rc = model_experts_open(&r->model, &experts, &r->experts, e)) != 0)
        return rc;
    const struct forward_options fo = {.model = &r->model,
                                       .kv = r->kv,
                                       .kernels = kernels,
                                       .ledger = r->ledger,
                                       .experts = r->experts,
                                       .max_rows = STEP_ROWS,
                                       .max_logits = 1,
                                       .trace = keep,
                                       .trace_context = r};
    return forward_new(&r->forward, &fo, e);
}

static void close_model(struct routing *r)
{
    forget(r);
    mem_free(r->rows);
    r->rows = NULL;
    forward_free(r->forward);
    experts_close(r->experts);
    kv_pool_free(r->kv);
    model_release(&r->model);
    gguf_close(r->gguf);
    r->forward = NULL;
    r->experts = NULL;
    r->kv = NULL;
    r->gguf = NULL;
}

/* One sequence of these tokens; the rows of what was wanted are kept. */
static int run(struct routing *r, const char *wanted, const int32_t *ids, struct error *e)
{
    struct step_row rows[STEP_ROWS];
    int rc = 0;
    forget(r);
    r->wanted = wanted;
    const int slot = kv_reserve(r->kv, r->n_tokens);
    for (uint32_t at = 0; rc == 0 && at < r->n_tokens;) {
        uint32_t n = 0;
        for (; n < STEP_ROWS && at < r->n_tokens; n++, at++)
            rows[n] = (struct step_row){.token = ids[at], .position = at, .slot = slot};
        rc = forward_step(r->forward, rows, n, e);
    }
    kv_release(r->kv, slot);
    return rc;
}

/* ------------------------------------------------------------------ balance */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The bias that lets an expert's probability be among the chosen as often as all others' are. */
static float bias_of(const struct rows *logits, size_t expert, double share, float *column)
{
    for (size_t i = 0; i < logits->n; i++) {
        const double logit = (double)logits->x[i * logits->n_cols + expert];
        column[i] = (float)(1 / (1 + numeric_exp(-logit)));
    }
    qsort(column, logits->n, sizeof(*column), by_value);
    return -column[(size_t)((double)(logits->n - 1) * (1 - share))];
}

static int balance_layer(struct routing *r, uint32_t il, int fd, struct error *e)
{
    const struct hparams *hp = &r->model.hp;
    const struct tensor *bias = &r->model.layers[il].router_bias;
    const double share = (double)hp->n_experts_used / hp->n_experts;
    float *column = mem_array(r->rows[il].n, sizeof(*column));
    float *out = mem_array(hp->n_experts, sizeof(*out));
    int rc = 0;
    if (!column || !out || !bias->file)
        rc = error_set(e, ERROR_UNSUPPORTED, "layer %u of %s has no selection bias", il, r->path);
    for (uint32_t x = 0; rc == 0 && x < hp->n_experts; x++)
        out[x] = bias_of(&r->rows[il], x, share, column);
    const ssize_t bytes = (ssize_t)(hp->n_experts * sizeof(*out));
    if (rc == 0 && pwrite(fd, out, (size_t)bytes, (off_t)bias->file->offset) != bytes)
        rc = error_sys(e, ERROR_IO, errno, "writing to %s", r->path);
    mem_free(column);
    mem_free(out);
    return rc;
}

/* One round: the model is opened anew, since the engine refuses a file that changes under it. */
static int balance(struct routing *r, uint32_t round, struct error *e)
{
    int rc = open_model(r, e);
    int32_t *ids = mem_array(r->n_tokens, sizeof(*ids));
    const int fd = open(r->path, O_WRONLY | O_CLOEXEC);
    if (!ids || fd < 0)
        rc = error_sys(e, ERROR_IO, errno, "%s cannot be written to", r->path);
    for (uint32_t i = 0; rc == 0 && i < r->n_tokens; i++)
        ids[i] = (int32_t)(rng_u64(round + 1, i) % r->model.hp.n_vocab);
    if (rc == 0)
        rc = run(r, "ffn_moe_logits", ids, e);
    for (uint32_t il = 0; rc == 0 && il < r->model.hp.n_layers; il++) {
        if (r->rows[il].n > 0)
            rc = balance_layer(r, il, fd, e);
    }
    if (fd >= 0)
        close(fd);
    mem_free(ids);
    close_model(r);
    return rc;
}

/* ------------------------------------------------------------------ figures */

struct figures {
    double neighbours, window, text, gini;
};

static bool chose(const struct rows *routes, size_t row, float expert)
{
    for (size_t k = 0; k < routes->n_cols; k++) {
        if (routes->x[row * routes->n_cols + k] == expert)
            return true;
    }
    return false;
}

static double neighbours_share(const struct rows *routes)
{
    size_t common = 0;
    for (size_t i = 1; i < routes->n; i++) {
        for (size_t k = 0; k < routes->n_cols; k++)
            common += chose(routes, i - 1, routes->x[i * routes->n_cols + k]);
    }
    return (double)common / (double)((routes->n - 1) * routes->n_cols);
}

/* Of the experts, on average, how many so many tokens touch. */
static double touched_share(const struct rows *routes, uint32_t n_experts, size_t n_tokens)
{
    size_t distinct = 0, windows = 0;
    for (; (windows + 1) * n_tokens <= routes->n; windows++) {
        bool seen[EXPERTS_MAX] = {false};
        const float *x = routes->x + windows * n_tokens * routes->n_cols;
        for (size_t i = 0; i < n_tokens * routes->n_cols; i++) {
            distinct += !seen[(size_t)x[i]];
            seen[(size_t)x[i]] = true;
        }
    }
    return (double)distinct / (double)(windows * n_experts);
}

static double gini(const struct rows *routes, uint32_t n_experts)
{
    float uses[EXPERTS_MAX] = {0};
    double sum = 0, ranked = 0;
    for (size_t i = 0; i < routes->n * routes->n_cols; i++)
        uses[(size_t)routes->x[i]]++;
    qsort(uses, n_experts, sizeof(*uses), by_value);
    for (uint32_t i = 0; i < n_experts; i++) {
        sum += (double)uses[i];
        ranked += (double)(i + 1) * (double)uses[i];
    }
    return 2 * ranked / (n_experts * sum) - (n_experts + 1.0) / n_experts;
}

/* A line for each layer; the means. */
static struct figures print_figures(const struct routing *r)
{
    const uint32_t n_experts = r->model.hp.n_experts;
    struct figures mean = {0};
    uint32_t n = 0;
    puts("layer,neighbours_share,touched_by_32,touched_by_all,gini");
    for (uint32_t il = 0; il < r->model.hp.n_layers; il++) {
        const struct rows *routes = &r->rows[il];
        if (routes->n == 0)
            continue;
        const struct figures f = {
            neighbours_share(routes), touched_share(routes, n_experts, WINDOW),
            touched_share(routes, n_experts, routes->n), gini(routes, n_experts)};
        printf("%u,%.3f,%.3f,%.3f,%.3f\n", il, f.neighbours, f.window, f.text, f.gini);
        mean.neighbours += f.neighbours;
        mean.window += f.window;
        mean.text += f.text;
        mean.gini += f.gini;
        n++;
    }
    mean.neighbours /= n;
    mean.window /= n;
    mean.text /= n;
    mean.gini /= n;
    printf("all,%.3f,%.3f,%.3f,%.3f\n", mean.neighbours, mean.window, mean.text, mean.gini);
    return mean;
}

static bool near(double value, double goal, double slack)
{
    return value >= goal - slack && value <= goal + slack;
}

/* 0 when the routing is like Kimi-K3's. */
static int judge(const struct figures *f)
{
    const bool good = near(f->neighbours, neighbours_goal, neighbours_slack) &&
                      near(f->window, window_goal, window_slack);
    if (!good)
        fprintf(stderr,
                "out-of-core-routing: neighbours share %.3f (wanted %.2f +- %.2f) and %d tokens "
                "touch %.3f "
                "(wanted %.2f +- %.2f): not like Kimi-K3's\n",
                f->neighbours, neighbours_goal, neighbours_slack, WINDOW, f->window, window_goal,
                window_slack);
    return good ? 0 : 1;
}

/* ------------------------------------------------------------------ the command line */

static int measure(struct routing *r, const char *text, struct figures *ret, struct error *e)
{
    int32_t *ids = NULL;
    int rc = ids_read(text, r->n_tokens, &ids, e);
    if (rc == 0)
        rc = open_model(r, e);
    if (rc == 0)
        rc = run(r, "ffn_moe_topk", ids, e);
    if (rc == 0)
        *ret = print_figures(r);
    close_model(r);
    mem_free(ids);
    return rc;
}

static int work(struct routing *r, const char *text, struct figures *ret, struct error *e)
{
    int rc = ledger_new(&r->ledger, UINT64_MAX / 2, e);
    for (uint32_t i = 0; rc == 0 && i < r->rounds; i++)
        rc = balance(r, i, e);
    if (rc == 0)
        rc = measure(r, text, ret, e);
    ledger_free(r->ledger);
    return rc;
}

int main(int argc, char **argv)
{
    struct routing r = {.n_tokens = 512};
    struct figures f;
    struct error e = {0};
    const char *text = NULL;
    int threads = parallel_cores();
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--balance") == 0)
            r.rounds = (uint32_t)strtoul(next, NULL, 10), i++;
        else if (strcmp(argv[i], "--tokens") == 0)
            r.n_tokens = (uint32_t)strtoul(next, NULL, 10), i++;
        else if (strcmp(argv[i], "--threads") == 0)
            threads = (int)strtol(next, NULL, 10), i++;
        else if (strcmp(argv[i], "--isa") == 0)
            r.isa = next, i++;
        else
            *(r.path ? &text : &r.path) = argv[i];
    }
    if (!r.path || !text || r.n_tokens < WINDOW || threads < 1) {
        fputs("usage: out-of-core-routing MODEL IDS [--balance ROUNDS] [--tokens N] [--isa NAME]"
              " [--threads N]\n",
              stderr);
        return 2;
    }
    parallel_set_threads(threads);
    if (work(&r, text, &f, &e) != 0) {
        fprintf(stderr, "out-of-core-routing: %s\n", e.text);
        return 1;
    }
    return judge(&f);
}
