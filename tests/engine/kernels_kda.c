/* Delta attention's kernels, the recurrence against its chunked form. */
#include "base/alloc.h"
#include "tests/engine/kda_kit.h"
#include "tests/engine/kernels.h"

enum { TOKENS = 37, DIM_MAX = 128, STRIDE = DIM_MAX + 3 };

struct inputs {
    float q[TOKENS * STRIDE], k[TOKENS * STRIDE], v[TOKENS * STRIDE], decay[TOKENS * STRIDE];
    float beta[TOKENS * 2];
    float start[DIM_MAX * DIM_MAX];
    size_t dim;
};

static void normalise(float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

static struct inputs *make_inputs(size_t dim)
{
    struct inputs *in = mem_zalloc(sizeof(*in));
    in->dim = dim;
    random_floats(1, in->q, TOKENS * STRIDE, 1.0f);
    random_floats(2, in->k, TOKENS * STRIDE, 1.0f);
    random_floats(3, in->v, TOKENS * STRIDE, 2.0f);
    random_floats(4, in->start, dim * dim, 0.5f);
    for (size_t t = 0; t < TOKENS; t++) {
        normalise(in->q + t * STRIDE, dim);
        normalise(in->k + t * STRIDE, dim);
        in->beta[2 * t] = 0.05f + 0.9f * (float)rng_unit(5, t);
        for (size_t i = 0; i < dim; i++)
            in->decay[t * STRIDE + i] = expf(-1.5f * (float)rng_unit(6, t * dim + i));
    }
    return in;
}

/* n rows of d numbers, packed and widened. */
static double *widen(const float *x, size_t stride, size_t n, size_t d)
{
    double *out = mem_array(n * d, sizeof(*out));
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < d; i++)
            out[r * d + i] = (double)x[r * stride + i];
    }
    return out;
}

static void oracle(const struct inputs *in, double *state, double *out)
{
    const size_t d = in->dim;
    double *x[5] = {widen(in->q, STRIDE, TOKENS, d), widen(in->k, STRIDE, TOKENS, d),
                    widen(in->v, STRIDE, TOKENS, d), widen(in->decay, STRIDE, TOKENS, d),
                    widen(in->beta, 2, TOKENS, 1)};
    for (size_t i = 0; i < TOKENS * d; i++)
        x[3][i] = log(x[3][i]);
    const struct kda_sequence s = {
        .q = x[0], .k = x[1], .v = x[2], .log_decay = x[3], .beta = x[4], .n = TOKENS, .d = d};
    kda_chunked(&s, state, out);
    for (size_t i = 0; i < 5; i++)
        mem_free(x[i]);
}

/* The kernel over all tokens in calls of `step` tokens. */
static void scan(const struct kernels *k, const struct inputs *in, size_t step, float *state,
                 float *out)
{
    memcpy(state, in->start, in->dim * in->dim * sizeof(*state));
    for (size_t t = 0; t < TOKENS; t += step) {
        const struct kda_scan s = {.state = state,
                                   .q = in->q + t * STRIDE,
                                   .k = in->k + t * STRIDE,
                                   .v = in->v + t * STRIDE,
                                   .decay = in->decay + t * STRIDE,
                                   .beta = in->beta + 2 * t,
                                   .out = out + t * STRIDE,
                                   .n_tokens = TOKENS - t < step ? TOKENS - t : step,
                                   .dim = in->dim,
                                   .stride = STRIDE,
                                   .beta_stride = 2,
                                   .scale = 0.5f};
        k->kda_scan(&s);
    }
}

static double distance(const char *what, const float *got, size_t stride, const double *want,
                       size_t rows, size_t n, double scale)
{
    double off = 0, size = 0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < n; i++) {
            double w = scale * want[r * n + i];
            off += pow((double)got[r * stride + i] - w, 2);
            size += w * w;
        }
    }
    if (!(off <= 1e-12 * size))
        test_fail(__FILE__, __LINE__, "%s is off by %.2e at dim %zu", what, sqrt(off / size), n);
    return sqrt(off / size);
}

static void kda_scan_equals_the_chunked_form(const struct kernels *k)
{
    static const size_t dims[] = {1, 7, 8, 20, 32, 45, 64, 96, 128};
    double worst = 0;
    for (size_t c = 0; c < sizeof(dims) / sizeof(dims[0]); c++) {
        const size_t d = dims[c];
        struct inputs *in = make_inputs(d);
        double *want_state = widen(in->start, d, d, d);
        double *want = mem_array(TOKENS * d, sizeof(double));
        float *state = mem_array(d * d, sizeof(float));
        float *out = mem_zalloc(TOKENS * STRIDE * sizeof(float));
        oracle(in, want_state, want);
        scan(k, in, TOKENS, state, out);
        worst = fmax(worst, distance("output", out, STRIDE, want, TOKENS, d, 0.5));
        worst = fmax(worst, distance("state", state, d, want_state, d, d, 1.0));
        CHECK(out[STRIDE - 1] == 0.0f); /* nothing beyond the row */
        mem_free(want_state);
        mem_free(want);
        mem_free(state);
        mem_free(out);
        mem_free(in);
    }
    test_note("%s: recurrent against chunked form, rel rms at most %.1e", k->name, worst);
}
KERNELS_TEST(kda_scan_equals_the_chunked_form)

static void kda_scan_is_the_same_in_any_chunks(const struct kernels *k)
{
    static const size_t dims[] = {20, 128};
    for (size_t c = 0; c < sizeof(dims) / sizeof(dims[0]); c++) {
        const size_t d = dims[c];
        struct inputs *in = make_inputs(d);
        float *state = mem_array(2 * d * d, sizeof(float));
        float *out = mem_zalloc(2 * TOKENS * STRIDE * sizeof(float));
        scan(k, in, TOKENS, state, out);
        for (size_t step = 1; step <= 5; step++) {
            scan(k, in, step, state + d * d, out + TOKENS * STRIDE);
            CHECK(memcmp(state, state + d * d, d * d * sizeof(float)) == 0);
            CHECK(memcmp(out, out + TOKENS * STRIDE, TOKENS * STRIDE * sizeof(float)) == 0);
        }
        mem_free(state);
        mem_free(out);
        mem_free(in);
    }
}
KERNELS_TEST(kda_scan_is_the_same_in_any_chunks)

static void check_decay(const struct kernels *k, const struct kda_gate *gate, const float *x,
                        size_t n)
{
    float z[256], decay[256];
    memcpy(z, x, n * sizeof(*z));
    k->kda_decay(z, gate, decay, n);
    for (size_t i = 0; i < n; i++) {
        double in = (double)(x[i] + gate->bias[i]);
        double want = gate->bounded ? (double)gate->bound / (1 + exp((double)gate->rate * in))
                                    : (double)gate->rate * (in > 20 ? in : log1p(exp(in)));
        double bound = (4 + (gate->bounded ? fabs(in * (double)gate->rate) : 0)) * 0x1p-24;
        check_close("log decay", (double)z[i], want, bound * fabs(want) + 1e-14);
        check_close("decay", (double)decay[i], exp(want),
                    2 * bound * (1 - want) * exp(want) + 1e-37);
        float alone = x[i], alone_decay;
        struct kda_gate one = *gate;
        one.bias = gate->bias + i;
        k->kda_decay(&alone, &one, &alone_decay, 1);
        CHECK(memcmp(&alone, &z[i], sizeof(alone)) == 0);
        CHECK(memcmp(&alone_decay, &decay[i], sizeof(alone_decay)) == 0);
    }
}

static void kda_decay_matches_f64(const struct kernels *k)
{
    float x[251], bias[251];
    const size_t n = sizeof(x) / sizeof(x[0]);
    random_floats(1, x, n, 12.0f);
    random_floats(2, bias, n, 3.0f);
    for (size_t i = 0; i < 60; i++) { /* both ends of softplus */
        x[i] = (float)i - 35.0f;
        bias[i] = 0.0f;
    }
    check_decay(k, &(struct kda_gate){.bias = bias, .rate = -0.3f}, x, n);
    check_decay(k, &(struct kda_gate){.bias = bias, .rate = -4.0f}, x, n);
    check_decay(k, &(struct kda_gate){.bias = bias, .rate = -0.7f, .bounded = true, .bound = -5.0f},
                x, n);
}
KERNELS_TEST(kda_decay_matches_f64)

static void sigmoid_gate_matches_f64(const struct kernels *k)
{
    float x[77], gate[77], got[77];
    const size_t n = sizeof(x) / sizeof(x[0]);
    random_floats(1, x, n, 5.0f);
    random_floats(2, gate, n, 30.0f);
    gate[0] = -100.0f;
    memcpy(got, x, sizeof(x));
    k->sigmoid_gate(got, gate, n);
    for (size_t i = 0; i < n; i++) {
        double want = (double)x[i] / (1 + exp(-(double)gate[i]));
        check_close("gated", (double)got[i], want, 4 * 0x1p-24 * fabs(want) + 1e-36);
        float alone = x[i];
        k->sigmoid_gate(&alone, gate + i, 1);
        CHECK(memcmp(&alone, &got[i], sizeof(alone)) == 0);
    }
    memcpy(got, x, sizeof(x));
    k->sigmoid_gate(got, got, n); /* silu */
    for (size_t i = 0; i < n; i++) {
        double want = (double)x[i] / (1 + exp(-(double)x[i]));
        check_close("silu", (double)got[i], want, 4 * 0x1p-24 * fabs(want));
    }
}
KERNELS_TEST(sigmoid_gate_matches_f64)
