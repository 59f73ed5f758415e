/*
 * Intermediate results against the reference's, tensor by tensor, in exact mode: golden/trace has those
 * of six tokens for one model of each configuration. Whatever a block traces under the reference's name
 * is compared; what the reference has and the engine never forms is listed here, and nothing else may be
 * missing.
 */
#include "base/alloc.h"
#include "base/file.h"
#include "engine/model/arch.h"
#include "tests/engine/golden_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define TENSOR_REL_RMS 1e-5
#define MAX_SEEN 512
#define N_TOKENS 6

/* What was traced at once: a name of a layer may come more than once, in the same order in both. */
struct seen {
    char name[64]; /* as in the reference's index: "ffn_norm-3", "result_norm" */
    float *x;
    size_t n;
    bool taken; /* by a line of the index */
};

struct trace {
    uint32_t n_layers;
    struct seen seen[MAX_SEEN];
    size_t n_seen;
};

/* The first of that name that is not taken yet. */
static struct seen *take(struct trace *t, const char *name)
{
    for (size_t i = 0; i < t->n_seen; i++) {
        struct seen *s = &t->seen[i];
        if (!s->taken && strcmp(s->name, name) == 0) {
            s->taken = true;
            return s;
        }
    }
    return NULL;
}

static void watch(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows)
{
    struct trace *t = context;
    CHECK(t->n_seen < MAX_SEEN);
    struct seen *s = &t->seen[t->n_seen++];
    if (layer < t->n_layers)
        snprintf(s->name, sizeof(s->name), "%s-%u", name, layer);
    else
        snprintf(s->name, sizeof(s->name), "%s", name);
    s->n = n_cols * n_rows;
    s->x = mem_array(s->n, sizeof(*s->x));
    memcpy(s->x, x, s->n * sizeof(*s->x));
}

static void trace_release(struct trace *t)
{
    for (size_t i = 0; i < t->n_seen; i++)
        mem_free(t->seen[i].x);
}

/* ------------------------------------------------------------------ the reference */

static void read_golden(const char *name, struct buf *out)
{
    char path[4096];
    struct error e = {0};
    if (!test_golden(name, path))
        SKIP("no golden set here that has %s; NOCTURNE_GOLDEN names its folder", name);
    buf_init(out, 64u << 20);
    CHECK_OK(file_read_all(path, out->max, out, &e), &e);
}

/*
 * Steps of the reference's graph that are none here: the sum that divides the weights, the sum of shared
 * and routed experts before it meets the residual, the embedding before it is the residual, what the
 * recurrence gives before its norm.
 */
static bool is_never_formed(const char *name, const struct model *m)
{
    static const char *const stems[] = {"ffn_moe_weights_sum-", "ffn_moe_weights_sum_clamped-",
                                        "inp_embd", "kda_scan_out-"};
    unsigned layer;
    for (size_t i = 0; i < ARRAY_LEN(stems); i++) {
        if (strncmp(name, stems[i], strlen(stems[i])) == 0)
            return true;
    }
    if (strncmp(name, "ffn_moe_weights_norm-", 21) == 0)
        return m->hp.expert_scale > 0.0f;
    return sscanf(name, "ffn_out-%u", &layer) == 1 && (m->layers[layer].parts & PART_MOE);
}

static double rel_rms(const float *got, const float *want, size_t n)
{
    double diff = 0;
    double ref = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        ref += (double)want[i] * (double)want[i];
    }
    return sqrt(diff / ref);
}

struct report {
    const char *config;
    size_t n_compared, n_bad;
    double worst;
    char worst_name[64];
};

/* The reference's numbers: ids are integers there, kimi-linear's beta has not gone through its sigmoid. */
static float *read_want(const struct buf *file, size_t n, const char *op, const char *name)
{
    float *want = mem_array(n, sizeof(*want));
    const int32_t *ids = (const int32_t *)(const void *)file->ptr;
    memcpy(want, file->ptr, file->len);
    for (size_t i = 0; strcmp(op, "VIEW") == 0 && i < n; i++)
        want[i] = (float)ids[i];
    for (size_t i = 0; strcmp(op, "RESHAPE") == 0 && strncmp(name, "kda_beta", 8) == 0 && i < n;
         i++)
        want[i] = (float)(1 / (1 + exp(-(double)want[i])));
    return want;
}

static void compare(struct report *r, const struct seen *s, const struct buf *file, const char *op)
{
    if (file->len != s->n * sizeof(float))
        test_fail(__FILE__, __LINE__, "%s %s: %zu numbers, want %zu", r->config, s->name, s->n,
                  file->len / sizeof(float));
    float *want = read_want(file, s->n, op, s->name);
    const double error = rel_rms(s->x, want, s->n);
    mem_free(want);
    r->n_compared++;
    if (!(error <= TENSOR_REL_RMS)) {
        test_note("%s %s: rel rms %.1e  TOO FAR", r->config, s->name, error);
        r->n_bad++;
    }
    if (error > r->worst) {
        r->worst = error;
        snprintf(r->worst_name, sizeof(r->worst_name), "%s", s->name);
    }
}

/* Each line: number name dtype op=OP ne=a,b,c,d. */
static void compare_all(struct report *r, struct trace *t, const struct model *m, const char *dir)
{
    char name[256];
    char file[256];
    char op[32];
    struct buf index;
    struct buf data;
    unsigned number;
    int used;
    snprintf(file, sizeof(file), "%s/index.txt", dir);
    read_golden(file, &index);
    CHECK(buf_append(&index, "", 1) == 0);
    for (const char *line = index.ptr;
         sscanf(line, "%u %100s %*s op=%31s %*s%n", &number, name, op, &used) == 3; line += used) {
        struct seen *s = take(t, name);
        if (!s && is_never_formed(name, m))
            continue;
        if (!s) {
            test_note("%s %s: not traced", r->config, name);
            r->n_bad++;
            continue;
        }
        snprintf(file, sizeof(file), "%.60s/%05u_%.100s.bin", dir, number, name);
        read_golden(file, &data);
        compare(r, s, &data, op);
        buf_release(&data);
    }
    buf_release(&index);
}

static bool check_config(const cJSON *entry, const char *path)
{
    static struct trace t;
    struct step_kit k;
    int32_t ids[N_TOKENS];
    const cJSON *tokens = cJSON_GetObjectItem(entry, "tokens");
    struct report r = {.config = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "config"))};
    t = (struct trace){0};
    const struct step_kit_options o = {.max_rows = N_TOKENS,
                                       .max_logits = N_TOKENS,
                                       .positions = N_TOKENS,
                                       .trace = watch,
                                       .trace_context = &t};
    CHECK_INT(cJSON_GetArraySize(tokens), N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++)
        ids[i] = (int32_t)cJSON_GetArrayItem(tokens, i)->valuedouble;
    step_kit_open(&k, path, &o);
    t.n_layers = k.model.hp.n_layers;
    step_kit_run(&k, kv_reserve(k.kv, N_TOKENS), ids, 0, N_TOKENS, N_TOKENS);
    compare_all(&r, &t, &k.model, cJSON_GetStringValue(cJSON_GetObjectItem(entry, "dir")));
    step_kit_close(&k);
    trace_release(&t);
    test_note("%-12s %3zu tensors, worst rel rms %.1e (<= 1e-05): %s", r.config, r.n_compared,
              r.worst, r.worst_name);
    CHECK(r.n_compared > 0);
    return r.n_bad == 0;
}

static bool is_known(const char *path)
{
    struct gguf *g;
    struct str arch = {0};
    struct error e = {0};
    CHECK_OK(gguf_open(&g, path, &e), &e);
    CHECK_OK(gguf_str(g, "general.architecture", true, &arch, &e), &e);
    bool known = arch_find(arch) != NULL;
    gguf_close(g);
    return known;
}

/* The manifest's traces whose models are here. */
static size_t check_manifest(void)
{
    size_t n = 0;
    size_t n_bad = 0;
    cJSON *manifest = golden_json("manifest.json");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(manifest, "traces"))
    {
        const char *model = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "model"));
        char path[4096];
        if (!test_golden(model, path) || !is_known(path))
            continue;
        n++;
        n_bad += !check_config(entry, path);
    }
    cJSON_Delete(manifest);
    CHECK_INT(n_bad, 0);
    return n;
}

TEST(trace_agrees_with_the_reference)
{
    CHECK(check_manifest() >= 1);
}

LONG_TEST(trace_agrees_with_the_reference_everywhere)
{
    golden_use_whole_set();
    CHECK_INT(check_manifest(), 8);
}
