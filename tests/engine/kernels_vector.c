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

struct page {
    float q[128];
    float k[KV_PAGE * 256], v[KV_PAGE * 256];
    uint16_t k16[KV_PAGE * 256], v16[KV_PAGE * 256];
    float acc[128];
};

/* Keys and values [n_keys][256], of which a head sees some columns. */
static void fill_page(struct page *p, uint64_t seed, float range)
{
    random_floats(seed, p->q, ARRAY_LEN(p->q), range);
    random_floats(seed + 1, p->k, ARRAY_LEN(p->k), range);
    random_floats(seed + 2, p->v, ARRAY_LEN(p->v), 2.0f);
    for (size_t i = 0; i < ARRAY_LEN(p->k); i++) {
        p->k16[i] = quant_f32_to_f16(p->k[i]);
        p->v16[i] = quant_f32_to_f16(p->v[i]);
        p->k[i] = quant_f16_to_f32(p->k16[i]);
        p->v[i] = quant_f16_to_f32(p->v16[i]);
    }
}

static double score_f64(const struct page *p, size_t key, size_t dim, double scale,
                        double *ret_magnitude)
{
    double sum = 0;
    *ret_magnitude = 0;
    for (size_t i = 0; i < dim; i++) {
        double product = (double)p->q[i] * (double)p->k[256 * key + i];
        sum += product;
        *ret_magnitude += fabs(product) * scale;
    }
    return sum * scale;
}

/* max, sum and values against f64; rounding of a score is a relative error of its weight. */
static void check_page(const struct page *p, const struct attention_page *a, float max, float sum,
                       double eps)
{
    double score[KV_PAGE];
    double want_max = -INFINITY;
    double off = 0;
    for (size_t j = 0; j < a->n_keys; j++) {
        double magnitude;
        score[j] = score_f64(p, j, a->k_dim, (double)a->scale, &magnitude);
        want_max = fmax(want_max, score[j]);
        off = fmax(off, magnitude);
    }
    double want_sum = 0;
    for (size_t j = 0; j < a->n_keys; j++)
        want_sum += exp(score[j] - want_max);
    double relative = eps * (4 * off + (double)a->n_keys + 8);
    check_close("max", (double)max, want_max, eps * 4 * off);
    check_close("sum", (double)sum, want_sum, relative * want_sum);
    for (size_t i = 0; i < a->v_dim; i++) {
        double want = 0;
        for (size_t j = 0; j < a->n_keys; j++)
            want += exp(score[j] - want_max) * (double)p->v[256 * j + i];
        check_close("value", (double)p->acc[i], want, relative * want_sum * 2);
    }
}

static const struct {
    size_t n_keys, k_dim, v_dim;
    float range;
} page_shapes[] = {
    {64, 64, 64, 1.0f}, {63, 128, 128, 1.0f}, {1, 64, 64, 2.0f}, {5, 80, 72, 2.0f},
    {9, 37, 45, 1.0f},  {8, 8, 8, 5.0f},      {33, 3, 5, 9.0f},
};

static void attention_page_matches_f64(const struct kernels *k)
{
    static struct page p;
    for (size_t i = 0; i < ARRAY_LEN(page_shapes); i++) {
        fill_page(&p, i, page_shapes[i].range);
        struct attention_page a = {.q = p.q,
                                   .k = p.k16,
                                   .v = p.v16,
                                   .k_stride_bytes = 256 * sizeof(uint16_t),
                                   .v_stride_bytes = 256 * sizeof(uint16_t),
                                   .n_keys = page_shapes[i].n_keys,
                                   .k_dim = page_shapes[i].k_dim,
                                   .v_dim = page_shapes[i].v_dim,
                                   .scale = 0.125f};
        float max;
        float sum;
        p.acc[a.v_dim < 128 ? a.v_dim : 0] = 12345.0f;
        k->attention_page(&a, &max, &sum, p.acc);
        CHECK(a.v_dim == 128 || p.acc[a.v_dim] == 12345.0f);
        check_page(&p, &a, max, sum, 0x1p-24);
    }
}
KERNELS_TEST(attention_page_matches_f64)

TEST(kernels_exact_attention_page_matches_f64)
{
    static struct page p;
    for (size_t i = 0; i < ARRAY_LEN(page_shapes); i++) {
        fill_page(&p, i, page_shapes[i].range);
        struct attention_page a = {.q = p.q,
                                   .k = p.k,
                                   .v = p.v,
                                   .k_stride_bytes = 256 * sizeof(float),
                                   .v_stride_bytes = 256 * sizeof(float),
                                   .n_keys = page_shapes[i].n_keys,
                                   .k_dim = page_shapes[i].k_dim,
                                   .v_dim = page_shapes[i].v_dim,
                                   .scale = 0.125f};
        float max;
        float sum;
        attention_page_exact(&a, &max, &sum, p.acc);
        check_page(&p, &a, max, sum, 0x1p-25);
    }
}
