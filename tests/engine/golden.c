/*
 * Logits against the reference's, every model of the golden set that this engine can run.
 *
 * Each model is one line of notes: the measured error beside its tolerance. The yardstick is exact
 * mode: float32 arithmetic on the same quantised weights. The default mode's errors are those of
 * quantised activations and the f16 cache.
 */
#include <cjson/cJSON.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/model/arch.h"
#include "tests/engine/golden_kit.h"
#include "tests/engine/kernels.h"
#include "tests/test.h"

#define EXACT_REL_RMS 1e-5
#define EXACT_MAX_ABS 3e-4
#define EXACT_MARGIN 1e-3

static const char *text_of(const cJSON *o, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(o, key));
    CHECK(text != NULL);
    return text;
}

static double *numbers_of(const cJSON *o, const char *key, size_t *ret_n)
{
    const cJSON *array = cJSON_GetObjectItem(o, key);
    CHECK(cJSON_IsArray(array));
    *ret_n = (size_t)cJSON_GetArraySize(array);
    double *out = mem_array(*ret_n, sizeof(*out));
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) out[i++] = item->valuedouble;
    return out;
}

/* The floats of a version 1.0 .npy file in C order; the caller frees. */
static float *read_npy(const char *name, size_t *ret_n)
{
    char path[4096];
    CHECK(test_golden(name, path));
    struct buf bytes;
    struct error e = {0};
    buf_init(&bytes, 64u << 20);
    CHECK_OK(file_read_all(path, bytes.max, &bytes, &e), &e);
    const unsigned char *at = (const unsigned char *)bytes.ptr;
    CHECK(bytes.len > 10 && memcmp(at, "\x93NUMPY\x01", 7) == 0);
    const size_t skip = 10 + (size_t)at[8] + 256 * (size_t)at[9];
    *ret_n = (bytes.len - skip) / sizeof(float);
    float *out = mem_array(*ret_n, sizeof(*out));
    memcpy(out, at + skip, *ret_n * sizeof(float));
    buf_release(&bytes);
    return out;
}

/* ------------------------------------------------------------------ one run */

struct rows {
    float *logits; /* [n_kept][n_vocab]: positions from first_kept on */
    size_t first_kept, n_kept;
    uint32_t n_vocab;
    int32_t *argmax; /* [n] every position */
};

static int keep_row(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                    struct error *e)
{
    struct rows *r = context;
    (void)e;
    uint32_t best = 0;
    for (uint32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    CHECK(!r->n_vocab || r->n_vocab == n_vocab);
    r->argmax[position] = (int32_t)best;
    if (position >= r->first_kept && position < r->first_kept + r->n_kept)
        memcpy(r->logits + (position - r->first_kept) * n_vocab, logits, n_vocab * sizeof(float));
    return 0;
}

static struct rows score(struct engine *en, const int32_t *ids, size_t n, size_t first_kept,
                         size_t n_kept)
{
    struct engine_info info;
    struct error e = {0};
    engine_describe(en, &info);
    struct rows r = {.first_kept = first_kept, .n_kept = n_kept, .n_vocab = info.n_vocab};
    r.logits = mem_array(n_kept * info.n_vocab, sizeof(float));
    r.argmax = mem_array(n, sizeof(*r.argmax));
    CHECK_OK(engine_score(en, ids, n, 0, keep_row, &r, &e), &e);
    return r;
}

static void rows_release(struct rows *r)
{
    mem_free(r->logits);
    mem_free(r->argmax);
}

/* ------------------------------------------------------------------ measures */

struct measure {
    double rel_rms, max_abs, median_rel_rms, kl_mean;
    size_t n_argmax_same, n_argmax, n_argmax_wrong; /* wrong: where the margin forbids it */
};

static double row_rel_rms(const float *a, const float *b, size_t n)
{
    double diff = 0;
    double ref = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        ref += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / ref);
}

static double log_sum(const float *x, size_t n)
{
    double top = (double)x[0];
    for (size_t i = 1; i < n; i++)
        top = fmax(top, (double)x[i]);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* KL(softmax(want) || softmax(got)) */
static double divergence(const float *got, const float *want, size_t n)
{
    const double zg = log_sum(got, n);
    const double zw = log_sum(want, n);
    double kl = 0;
    for (size_t i = 0; i < n; i++) {
        double lw = (double)want[i] - zw;
        kl += exp(lw) * (lw - ((double)got[i] - zg));
    }
    return kl;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

/* `rows` rows of both; the worse of what it holds already and these. */
static void measure_rows(struct measure *m, const float *got, const float *want, size_t rows,
                         size_t n_vocab)
{
    double each[16];
    double kl = 0;
    CHECK(rows > 0 && rows <= ARRAY_LEN(each));
    for (size_t r = 0; r < rows; r++) {
        each[r] = row_rel_rms(got + r * n_vocab, want + r * n_vocab, n_vocab);
        kl += divergence(got + r * n_vocab, want + r * n_vocab, n_vocab) / (double)rows;
    }
    for (size_t i = 0; i < rows * n_vocab; i++) {
        CHECK(isfinite(got[i]));
        m->max_abs = fmax(m->max_abs, fabs((double)got[i] - (double)want[i]));
    }
    qsort(each, rows, sizeof(each[0]), by_value);
    const double median = (each[(rows - 1) / 2] + each[rows / 2]) / 2;
    m->median_rel_rms = fmax(m->median_rel_rms, median);
    m->kl_mean = fmax(m->kl_mean, kl);
    m->rel_rms = fmax(m->rel_rms, row_rel_rms(got, want, rows * n_vocab));
}

static void measure_argmax(struct measure *m, const int32_t *got, const double *want,
                           const double *margin, size_t n, double allowed)
{
    for (size_t i = 0; i < n; i++) {
        const bool same = got[i] == (int32_t)want[i];
        m->n_argmax++;
        m->n_argmax_same += same;
        m->n_argmax_wrong += !same && margin[i] > allowed;
    }
}

/* ------------------------------------------------------------------ a model of the manifest */

struct limits {
    double median_rel_rms, kl_mean;
};

static bool is_one_of(const char *variant, const char *const *list)
{
    for (; *list; list++) {
        if (strcmp(variant, *list) == 0)
            return true;
    }
    return false;
}

static const char *const float_variants[] = {"F32", "F16", NULL};
static const char *const bf16_variants[] = {"BF16", NULL};
static const char *const small_variants[] = {"Q8_0", "Q4_0",   "Q4_1",  "Q5_0",
                                             "Q5_1", "IQ4_NL", "MXFP4", NULL};
static const char *const super_variants[] = {
    "Q2_K",  "Q3_K",  "Q4_K",    "Q5_K",   "Q6_K",  "Q4_K_M",  "IQ4_XS", "TQ1_0", "TQ2_0",
    "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",  NULL};

static const char *const mixed_variants[] = {"IQ1_S_exps", "MXFP4_MOE", NULL};
static const char *const dense_archs[] = {"llama", "qwen2", "qwen3", NULL};

static bool known_variant(const char *variant)
{
    return is_one_of(variant, float_variants) || is_one_of(variant, bf16_variants) ||
           is_one_of(variant, small_variants) || is_one_of(variant, super_variants) ||
           is_one_of(variant, mixed_variants);
}

/*
 * The default mode's tolerance. With experts the divergence is that of near ties of the router: one
 * position with other experts outweighs all the others.
 */
static struct limits limits_of(const cJSON *model)
{
    const char *variant = text_of(model, "variant");
    const bool dense = is_one_of(text_of(model, "arch"), dense_archs);
    const bool deep = strcmp(text_of(model, "config"), "kimi-k3-deep") == 0;
    struct limits l = {8e-2, 0.1};
    if (is_one_of(variant, float_variants))
        l = (struct limits){3e-3, dense ? 3e-3 : 0.1};
    else if (is_one_of(variant, bf16_variants))
        l = (struct limits){deep ? 5e-2 : 1.5e-2, dense ? 3e-3 : 0.1};
    else if (deep)
        l = (struct limits){0.15, 0.1};
    else if (dense && is_one_of(variant, small_variants))
        l = (struct limits){3e-2, 3e-3};
    else if (dense)
        l = (struct limits){5e-2, 8e-3};
    return l;
}

static bool is_ours(const cJSON *model)
{
    return arch_find(str_of(text_of(model, "arch"))) && known_variant(text_of(model, "variant"));
}

/* isa NULL: exact mode. */
static struct engine *open_model(const char *path, const char *isa, struct ledger **ret_ledger)
{
    struct error e = {0};
    struct engine *en = NULL;
    CHECK_OK(ledger_new(ret_ledger, (uint64_t)8 << 30, &e), &e);
    const struct engine_options o = {.model_path = path,
                                     .ledger = *ret_ledger,
                                     .slots = 1,
                                     .threads = 2,
                                     .exact = !isa,
                                     .isa = isa,
                                     .no_tokenizer = true};
    CHECK_OK(engine_open(&en, &o, &e), &e);
    return en;
}

static int32_t *ids_of(const double *numbers, size_t n)
{
    int32_t *ids = mem_array(n, sizeof(*ids));
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)numbers[i];
    return ids;
}

static void run_sequence(struct engine *en, const cJSON *seq, struct measure *m,
                         double margin_allowed)
{
    size_t n;
    size_t n_other;
    size_t n_want;
    double *tokens = numbers_of(seq, "tokens", &n);
    double *argmax = numbers_of(seq, "argmax_exact", &n_other);
    CHECK_INT(n_other, n);
    double *margin = numbers_of(seq, "argmax_exact_margin", &n_other);
    CHECK_INT(n_other, n);
    float *want = read_npy(text_of(seq, "logits_exact"), &n_want);
    int32_t *ids = ids_of(tokens, n);
    struct rows r = score(en, ids, n, n - 4, 4);
    CHECK_INT(n_want, 4 * (size_t)r.n_vocab);
    measure_rows(m, r.logits, want, 4, r.n_vocab);
    measure_argmax(m, r.argmax, argmax, margin, n, margin_allowed);
    rows_release(&r);
    mem_free(ids);
    mem_free(want);
    mem_free(margin);
    mem_free(argmax);
    mem_free(tokens);
}

/* How many greedy tokens are certain: those before the first margin below the limit. */
static size_t count_certain(const double *margin, size_t n, double limit)
{
    size_t certain = 0;
    while (certain < n && margin[certain] >= limit)
        certain++;
    return certain;
}

static int32_t *join_ids(const double *prompt, size_t n_prompt, const double *answer, size_t n)
{
    int32_t *ids = mem_array(n_prompt + n, sizeof(*ids));
    for (size_t i = 0; i < n_prompt + n; i++)
        ids[i] = (int32_t)(i < n_prompt ? prompt[i] : answer[i - n_prompt]);
    return ids;
}

/*
 * Feeding the reference's greedy tokens back gives what choosing them one by one would, as long as
 * each is ours too (rows do not depend on how they were fed: tests/engine/identity.c). `argmax` is that
 * of the prompt's last position and those that follow.
 */
static void compare_greedy(const int32_t *argmax, const double *greedy, const double *margin,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (argmax[i] != (int32_t)greedy[i])
            test_fail(__FILE__, __LINE__, "greedy token %zu is %d, want %d (margin %g)", i,
                      (int)argmax[i], (int)greedy[i], margin[i]);
    }
}

static size_t greedy_of_sequence(struct engine *en, const cJSON *seq)
{
    size_t n;
    size_t n_greedy;
    double *tokens = numbers_of(seq, "tokens", &n);
    double *greedy = numbers_of(seq, "greedy16_exact", &n_greedy);
    double *margin = numbers_of(seq, "greedy16_exact_margin", &n_greedy);
    const size_t certain = count_certain(margin, n_greedy, EXACT_MARGIN);
    if (certain > 0) {
        int32_t *ids = join_ids(tokens, n, greedy, certain);
        struct rows r = score(en, ids, n + certain - 1, 0, 0);
        compare_greedy(r.argmax + n - 1, greedy, margin, certain);
        rows_release(&r);
        mem_free(ids);
    }
    mem_free(margin);
    mem_free(greedy);
    mem_free(tokens);
    return certain;
}

static bool check_exact(const cJSON *model, const char *path, const char *isa)
{
    struct ledger *l;
    struct engine *en = open_model(path, isa, &l);
    struct measure m = {0};
    size_t n_greedy = 0;
    const cJSON *seq;
    cJSON_ArrayForEach(seq, cJSON_GetObjectItem(model, "sequences"))
    {
        run_sequence(en, seq, &m, EXACT_MARGIN);
        n_greedy += greedy_of_sequence(en, seq);
    }
    const bool good =
        m.rel_rms <= EXACT_REL_RMS && m.max_abs <= EXACT_MAX_ABS && m.n_argmax_wrong == 0;
    test_note(
        "%-22s exact    rel rms %.1e (<= 1e-05)  max abs %.1e (<= 3e-04)  argmax %zu/%zu, %zu "
        "wrong  greedy %zu%s",
        text_of(model, "name"), m.rel_rms, m.max_abs, m.n_argmax_same, m.n_argmax, m.n_argmax_wrong,
        n_greedy, good ? "" : "  TOO FAR");
    engine_close(en);
    ledger_free(l);
    return good;
}

/*
 * A different argmax is an error only beyond four times the error that the tolerance expects; with
 * experts, where a near tie of the router moves a position far, when one in five differs.
 */
static bool check_default(const cJSON *model, const char *path, const char *isa)
{
    const bool dense = is_one_of(text_of(model, "arch"), dense_archs);
    const struct limits limit = limits_of(model);
    struct ledger *l;
    struct engine *en = open_model(path, isa, &l);
    struct measure m = {0};
    const cJSON *seq;
    cJSON_ArrayForEach(seq, cJSON_GetObjectItem(model, "sequences"))
        run_sequence(en, seq, &m, dense ? 4 * 3 * limit.median_rel_rms * 3 : INFINITY);
    const bool good = m.median_rel_rms <= limit.median_rel_rms && m.kl_mean <= limit.kl_mean &&
                      m.n_argmax_wrong == 0 && m.n_argmax_same * 5 >= m.n_argmax * 4;
    test_note("%-22s %-8s median rel rms %.1e (<= %.1e)  KL %.1e (<= %.1e)  argmax %zu/%zu, %zu "
              "wrong%s",
              text_of(model, "name"), isa, m.median_rel_rms, limit.median_rel_rms, m.kl_mean,
              limit.kl_mean, m.n_argmax_same, m.n_argmax, m.n_argmax_wrong,
              good ? "" : "  TOO FAR");
    engine_close(en);
    ledger_free(l);
    return good;
}

typedef bool check_fn(const cJSON *model, const char *path, const char *isa);

static void check_manifest(check_fn *check, const char *isa, size_t at_least)
{
    cJSON *manifest = golden_json("manifest.json");
    size_t n = 0;
    size_t n_bad = 0;
    const cJSON *model;
    cJSON_ArrayForEach(model, cJSON_GetObjectItem(manifest, "models"))
    {
        char path[4096];
        if (!is_ours(model) || !test_golden(text_of(model, "file"), path))
            continue;
        n++;
        n_bad += !check(model, path, isa);
    }
    cJSON_Delete(manifest);
    CHECK(n >= at_least);
    CHECK_INT(n_bad, 0);
}

TEST(golden_logits_exact)
{
    check_manifest(check_exact, NULL, 1);
}

static void check_shipped(const struct kernels *k)
{
    check_manifest(check_default, k->name, 1);
}
KERNELS_EACH(TEST, golden_logits_default, check_shipped)

LONG_TEST(golden_logits_whole_set_exact)
{
    golden_use_whole_set();
    check_manifest(check_exact, NULL, 72);
}

static void check_whole_set(const struct kernels *k)
{
    golden_use_whole_set();
    check_manifest(check_default, k->name, 72);
}
KERNELS_EACH(LONG_TEST, golden_logits_whole_set, check_whole_set)

/* ------------------------------------------------------------------ the demo model */

static void demo_model(char out[4096])
{
    const char *given = getenv("NOCTURNE_MODEL");
    const char *home = getenv("HOME");
    if (given)
        snprintf(out, 4096, "%s", given);
    else
        snprintf(out, 4096, "%s/.cache/nocturne/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
    if (access(out, R_OK) != 0)
        SKIP("the demo model is not here (%s); make demo fetches it", out);
}

static bool check_case(struct engine *en, const cJSON *one, size_t max_greedy)
{
    size_t n;
    size_t n_greedy;
    size_t n_want;
    char file[128];
    struct measure m = {0};
    double *tokens = numbers_of(one, "tokens", &n);
    double *argmax = numbers_of(one, "argmax_exact", &n);
    double *margin = numbers_of(one, "margin_exact", &n);
    double *greedy = numbers_of(one, "greedy_exact", &n_greedy);
    double *greedy_margin = numbers_of(one, "greedy_margin_exact", &n_greedy);
    snprintf(file, sizeof(file), "smollm2/%s.exact.npy", one->string);
    float *want = read_npy(file, &n_want);
    const size_t certain =
        count_certain(greedy_margin, n_greedy < max_greedy ? n_greedy : max_greedy, 1e-2);
    int32_t *ids = join_ids(tokens, n, greedy, certain);
    struct rows r = score(en, ids, certain > 0 ? n + certain - 1 : n, n - 1, 1);
    CHECK_INT(n_want, r.n_vocab);
    measure_rows(&m, r.logits, want, 1, r.n_vocab);
    measure_argmax(&m, r.argmax, argmax, margin, n, 1e-2);
    compare_greedy(r.argmax + n - 1, greedy, greedy_margin, certain);
    rows_release(&r);
    const bool good =
        m.rel_rms <= EXACT_REL_RMS && m.max_abs <= EXACT_MAX_ABS && m.n_argmax_wrong == 0;
    test_note(
        "smollm2 %-8s exact rel rms %.1e (<= 1e-05)  max abs %.1e (<= 3e-04)  argmax %zu/%zu, "
        "%zu wrong  greedy %zu%s",
        one->string, m.rel_rms, m.max_abs, m.n_argmax_same, m.n_argmax, m.n_argmax_wrong, certain,
        good ? "" : "  TOO FAR");
    mem_free(ids);
    mem_free(want);
    mem_free(greedy_margin);
    mem_free(greedy);
    mem_free(margin);
    mem_free(argmax);
    mem_free(tokens);
    return good;
}

LONG_TEST(golden_demo_model)
{
    char path[4096];
    SKIP_EMULATED("takes hours; the small models are checked");
    demo_model(path);
    golden_use_whole_set();
    cJSON *manifest = golden_json("smollm2/manifest.json");
    struct ledger *l;
    struct engine *en = open_model(path, NULL, &l);
    size_t n_bad = 0;
    size_t n = 0;
    const cJSON *one;
    cJSON_ArrayForEach(one, cJSON_GetObjectItem(manifest, "cases"))
    {
        n++;
        n_bad += !check_case(en, one, SIZE_MAX);
    }
    engine_close(en);
    ledger_free(l);
    cJSON_Delete(manifest);
    CHECK_INT(n, 6);
    CHECK_INT(n_bad, 0);
}

/* One case in the short suite, too: a real vocabulary, real weights. */
TEST(golden_demo_model_one_case)
{
    char path[4096];
    SKIP_EMULATED("takes minutes; the small models are checked");
    demo_model(path);
    cJSON *manifest = golden_json("smollm2/manifest.json");
    struct ledger *l;
    struct engine *en = open_model(path, NULL, &l);
    CHECK(check_case(en, cJSON_GetObjectItem(manifest, "cases")->child, 0));
    engine_close(en);
    ledger_free(l);
    cJSON_Delete(manifest);
}
