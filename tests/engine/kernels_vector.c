/* Element-wise kernels and attention, for every table. */
#include "engine/quant/quant.h"
#include "tests/engine/kernels.h"

enum { N_MAX = 301 };

/* Distance in units of the last place of the f32 nearest to want. */
static double ulps(float got, double want)
{
    float nearest = (float)want;
    double ulp = (double)nextafterf(nearest, INFINITY) - (double)nearest;
    return fabs((double)got - want) / ulp;
}

static void exp_is_within_two_ulps(const struct kernels *k)
{
    double worst = 0;
    for (double x = -103.9; x < 88.72; x += 0.000317) {
        float f = (float)x;
        worst = fmax(worst, ulps(k->exp1(f), exp((double)f)));
    }
    test_note("%s: exp is at most %.2f ulp off", k->name, worst);
    CHECK(worst < 1.5);
    CHECK(k->exp1(0.0f) == 1.0f);
    CHECK(k->exp1(-0.0f) == 1.0f);
    CHECK(k->exp1(-INFINITY) == 0.0f);
    CHECK(k->exp1(-104.5f) == 0.0f);
    CHECK(k->exp1(-3e38f) == 0.0f);
    CHECK(isinf(k->exp1(88.75f)));
    CHECK(isinf(k->exp1(INFINITY)));
    CHECK(isfinite(k->exp1(88.72f)));
    CHECK(isnan(k->exp1(NAN)));
}
KERNELS_TEST(exp_is_within_two_ulps)

static void swiglu_matches_f64(const struct kernels *k)
{
    static float gate[N_MAX];
    static float up[N_MAX];
    static float out[N_MAX];
    random_floats(1, gate, N_MAX, 20.0f);
    random_floats(2, up, N_MAX, 5.0f);
    gate[0] = -100.0f;
    gate[1] = 100.0f;
    gate[2] = 0.0f;
    gate[3] = -3e38f;
    k->swiglu(gate, up, out, N_MAX);
    for (int i = 0; i < N_MAX; i++) {
        double want = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];
        check_close("swiglu", (double)out[i], want, 6 * 0x1p-24 * fabs(want) + 1e-36);
    }
    /* Each number alone, through the tail, is what it was in the body. */
    for (int i = 0; i < N_MAX; i++) {
        float alone;
        k->swiglu(gate + i, up + i, &alone, 1);
        CHECK(memcmp(&alone, &out[i], sizeof(alone)) == 0);
    }
}
KERNELS_TEST(swiglu_matches_f64)

static double situ_f64(double gate, double up, double beta, double linear_beta)
{
    double capped = beta * tanh(gate / beta) / (1 + exp(-gate));
    return capped * (linear_beta > 0 ? linear_beta * tanh(up / linear_beta) : up);
}

static void situ_matches_f64(const struct kernels *k)
{
    static float gate[N_MAX];
    static float up[N_MAX];
    static float out[N_MAX];
    static const float linear[] = {25.0f, 0.5f, 0.0f, -1.0f};
    for (size_t l = 0; l < ARRAY_LEN(linear); l++) {
        random_floats(1, gate, N_MAX, l % 2 ? 0.3f : 20.0f);
        random_floats(2, up, N_MAX, l == 0 ? 0.1f : 40.0f);
        gate[0] = -100.0f;
        gate[1] = 100.0f;
        gate[2] = 0.0f;
        gate[3] = -60.0f;
        gate[4] = 2.5f; /* tanh's two forms meet */
        k->situ(gate, up, out, N_MAX, 4.0f, linear[l]);
        for (int i = 0; i < N_MAX; i++) {
            double want = situ_f64((double)gate[i], (double)up[i], 4, (double)linear[l]);
            float alone;
            check_close("situ", (double)out[i], want, 16 * 0x1p-24 * fabs(want) + 1e-36);
            k->situ(gate + i, up + i, &alone, 1, 4.0f, linear[l]);
            CHECK(memcmp(&alone, &out[i], sizeof(alone)) == 0);
        }
    }
}
KERNELS_TEST(situ_matches_f64)

static void rms_norm_matches_f64(const struct kernels *k)
{
    static float x[N_MAX];
    static float w[N_MAX];
    static float out[N_MAX];
    for (size_t n = 1; n <= N_MAX; n += 15) {
        random_floats(n, x, n, n % 2 ? 1e-3f : 1e4f);
        random_floats(n + 1, w, n, 2.0f);
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)x[i] * (double)x[i];
        double scale = 1 / sqrt(sum / (double)n + 1e-5);
        k->rms_norm(x, w, out, n, 1e-5f);
        for (size_t i = 0; i < n; i++) {
            double want = (double)x[i] * scale * (double)w[i];
            check_close("rms_norm", (double)out[i], want, 4 * 0x1p-24 * fabs(want));
        }
        k->rms_norm(x, NULL, x, n, 1e-5f);
        for (size_t i = 0; i < n; i++)
            CHECK(x[i] * w[i] == out[i]);
    }
}
KERNELS_TEST(rms_norm_matches_f64)

static void add_and_merge_are_element_wise(const struct kernels *k)
{
    static float x[N_MAX];
    static float y[N_MAX];
    static float was[N_MAX];
    random_floats(3, x, N_MAX, 1.0f);
    random_floats(4, y, N_MAX, 1.0f);
    memcpy(was, x, sizeof(x));
    k->add(x, y, N_MAX);
    for (int i = 0; i < N_MAX; i++)
        CHECK(x[i] == was[i] + y[i]);
    memcpy(x, was, sizeof(x));
    k->merge(x, 0.75f, y, -3.5f, N_MAX);
    for (int i = 0; i < N_MAX; i++) {
        double want = (double)was[i] * 0.75 + (double)y[i] * -3.5;
        check_close("merge", (double)x[i], want, 0x1p-23 * 5);
        k->merge(&was[i], 0.75f, &y[i], -3.5f, 1);
        CHECK(was[i] == x[i]);
    }
}
KERNELS_TEST(add_and_merge_are_element_wise)

/* Every binary16, its neighbours in binary32 and the middle between two: as the reference rounds. */
static void to_f16_rounds_as_the_reference(const struct kernels *k)
{
    static float x[4 * 0x10000];
    static uint16_t got[4 * 0x10000];
    size_t n = 0;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = quant_f16_to_f32((uint16_t)h);
        x[n++] = f;
        x[n++] = nextafterf(f, INFINITY);
        x[n++] = nextafterf(f, -INFINITY);
        x[n++] = (f + quant_f16_to_f32((uint16_t)(h ^ 1))) / 2;
    }
    k->to_f16(x, got, n - 3);
    for (size_t i = 0; i < n - 3; i++)
        CHECK_INT(got[i], quant_f32_to_f16(x[i]));
}
KERNELS_TEST(to_f16_rounds_as_the_reference)

enum { PAGE_COLS = 600, PAGE_QUERIES = ATTENTION_QUERIES };

struct page {
    float q[PAGE_QUERIES][PAGE_COLS];
    float k[KV_PAGE * PAGE_COLS], v[KV_PAGE * PAGE_COLS];
    uint16_t k16[KV_PAGE * PAGE_COLS], v16[KV_PAGE * PAGE_COLS];
    float acc[PAGE_QUERIES][ATTENTION_PADDED(PAGE_COLS) + 1];
    struct attention_query queries[PAGE_QUERIES];
    struct attention_page call;
};

static const struct page_shape {
    size_t n_queries, n_keys, k_dim, v_dim;
    float range;
    bool latent; /* values are the first numbers of the keys */
} page_shapes[] = {
    {1, 64, 64, 64, 1.0f, false}, {3, 63, 128, 128, 1.0f, false},  {1, 1, 64, 64, 2.0f, false},
    {4, 5, 80, 72, 2.0f, false},  {2, 9, 37, 45, 1.0f, false},     {5, 8, 8, 8, 5.0f, false},
    {7, 33, 3, 5, 9.0f, false},   {64, 64, 576, 512, 0.3f, true},  {48, 40, 64, 64, 1.0f, false},
    {13, 17, 96, 80, 1.0f, true}, {3, 50, 64, 64, 1.0f, false},    {2, 31, 576, 512, 0.3f, true},
    {9, 64, 40, 48, 1.0f, false}, {33, 64, 192, 128, 0.5f, false},
};

/*
 * Keys and values [KV_PAGE][PAGE_COLS], of which a head sees some columns. The queries see fewer keys
 * the earlier they are, as rows of one sequence do; what none sees is NaN.
 */
static void fill_page(struct page *p, const struct page_shape *shape, uint64_t seed, bool f32)
{
    random_floats(seed, p->q[0], PAGE_QUERIES * PAGE_COLS, shape->range);
    random_floats(seed + 1, p->k, ARRAY_LEN(p->k), shape->range);
    random_floats(seed + 2, p->v, ARRAY_LEN(p->v), 2.0f);
    if (shape->latent)
        memcpy(p->v, p->k, sizeof(p->v));
    for (size_t i = 0; i < ARRAY_LEN(p->k); i++) {
        bool seen = i / PAGE_COLS < shape->n_keys;
        p->k16[i] = quant_f32_to_f16(seen ? p->k[i] : NAN);
        p->v16[i] = quant_f32_to_f16(seen ? p->v[i] : NAN);
        p->k[i] = quant_f16_to_f32(p->k16[i]);
        p->v[i] = quant_f16_to_f32(p->v16[i]);
    }
    size_t elem = f32 ? sizeof(float) : sizeof(uint16_t);
    p->call = (struct attention_page){.queries = p->queries,
                                      .n_queries = shape->n_queries,
                                      .k = f32 ? (void *)p->k : p->k16,
                                      .v = f32 ? (void *)p->v : p->v16,
                                      .k_stride_bytes = PAGE_COLS * elem,
                                      .v_stride_bytes = PAGE_COLS * elem,
                                      .k_dim = shape->k_dim,
                                      .v_dim = shape->v_dim,
                                      .scale = 0.125f};
    for (size_t i = 0; i < shape->n_queries; i++) {
        size_t fewer = (shape->n_queries - 1 - i) / 3;
        size_t n_keys = shape->n_keys > fewer ? shape->n_keys - fewer : 1;
        p->queries[i] = (struct attention_query){.q = p->q[i], .n_keys = n_keys, .acc = p->acc[i]};
        p->acc[i][ATTENTION_PADDED(shape->v_dim)] = 12345.0f;
    }
}

static double score_f64(const struct page *p, const struct attention_query *query, size_t key,
                        double *ret_magnitude)
{
    double sum = 0;
    *ret_magnitude = 0;
    for (size_t i = 0; i < p->call.k_dim; i++) {
        double product = (double)query->q[i] * (double)p->k[PAGE_COLS * key + i];
        sum += product;
        *ret_magnitude += fabs(product) * (double)p->call.scale;
    }
    return sum * (double)p->call.scale;
}

/* max, sum and values against f64; rounding of a score is a relative error of its weight. */
static void check_query(const struct page *p, const struct attention_query *query, double eps)
{
    double score[KV_PAGE] = {0};
    double want_max = -INFINITY;
    double off = 0;
    for (size_t j = 0; j < query->n_keys; j++) {
        double magnitude;
        score[j] = score_f64(p, query, j, &magnitude);
        want_max = fmax(want_max, score[j]);
        off = fmax(off, magnitude);
    }
    double want_sum = 0;
    for (size_t j = 0; j < query->n_keys; j++)
        want_sum += exp(score[j] - want_max);
    double relative = eps * (8 * off + (double)query->n_keys + 8);
    check_close("max", (double)query->max, want_max, eps * 8 * off);
    check_close("sum", (double)query->sum, want_sum, relative * want_sum);
    for (size_t i = 0; i < p->call.v_dim; i++) {
        double want = 0;
        for (size_t j = 0; j < query->n_keys; j++)
            want += exp(score[j] - want_max) * (double)p->v[PAGE_COLS * j + i];
        check_close("value", (double)query->acc[i], want, relative * want_sum * 2);
    }
    CHECK(query->acc[ATTENTION_PADDED(p->call.v_dim)] == 12345.0f);
}

static void attention_page_matches_f64(const struct kernels *k)
{
    static struct page p;
    for (size_t i = 0; i < ARRAY_LEN(page_shapes); i++) {
        fill_page(&p, &page_shapes[i], i, false);
        k->attention_page(&p.call);
        for (size_t q = 0; q < p.call.n_queries; q++)
            check_query(&p, &p.queries[q], 0x1p-24);
    }
}
KERNELS_TEST(attention_page_matches_f64)

TEST(kernels_exact_attention_page_matches_f64)
{
    static struct page p;
    for (size_t i = 0; i < ARRAY_LEN(page_shapes); i++) {
        fill_page(&p, &page_shapes[i], i, true);
        attention_page_exact(&p.call);
        for (size_t q = 0; q < p.call.n_queries; q++)
            check_query(&p, &p.queries[q], 0x1p-25);
    }
}

/* Each query alone, and any neighbours: the same bits. */
static void attention_page_does_not_depend_on_company(const struct kernels *k)
{
    static struct page p;
    static struct page together;
    for (size_t i = 0; i < ARRAY_LEN(page_shapes); i++) {
        size_t n = page_shapes[i].n_queries;
        fill_page(&p, &page_shapes[i], i, false);
        fill_page(&together, &page_shapes[i], i, false);
        k->attention_page(&together.call);
        for (size_t size = 1; size < n; size = 2 * size + 1) {
            for (size_t at = 0; at < n; at += size) {
                p.call.queries = p.queries + at;
                p.call.n_queries = MIN_OF(size, n - at);
                k->attention_page(&p.call);
            }
            for (size_t q = 0; q < n; q++) {
                size_t bytes = page_shapes[i].v_dim * sizeof(float);
                CHECK(memcmp(p.queries[q].acc, together.queries[q].acc, bytes) == 0);
                CHECK(p.queries[q].max == together.queries[q].max);
                CHECK(p.queries[q].sum == together.queries[q].sum);
            }
        }
    }
}
KERNELS_TEST(attention_page_does_not_depend_on_company)
