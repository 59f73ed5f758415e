/* What the kernel tests share: every test body runs for each table, a test of its own for each. */
#ifndef TESTS_ENGINE_KERNELS_H
#define TESTS_ENGINE_KERNELS_H

#include "base/rng.h"
#include "engine/kernels/kernels.h"
#include "tests/test.h"

/* That table; skips the test where this machine cannot run it. */
static inline const struct kernels *kernels_named(const char *name)
{
    struct cpu c;
    cpu_detect(&c);
    for (size_t i = 0; kernels_all[i]; i++) {
        if (strcmp(kernels_all[i]->name, name) == 0) {
            if (!kernels_all[i]->supported(&c))
                SKIP("this processor lacks %s", name);
            return kernels_all[i];
        }
    }
    SKIP("%s is not compiled in", name);
}

/* A test of that kind for each table: a visible skip where this processor lacks it. */
#define KERNELS_EACH(KIND, name, body)                                                             \
    KIND(name##_generic)                                                                           \
    {                                                                                              \
        body(kernels_named("generic"));                                                            \
    }                                                                                              \
    KIND(name##_avx2)                                                                              \
    {                                                                                              \
        body(kernels_named("avx2"));                                                               \
    }                                                                                              \
    KIND(name##_avx512)                                                                            \
    {                                                                                              \
        body(kernels_named("avx512"));                                                             \
    }                                                                                              \
    KIND(name##_neon)                                                                              \
    {                                                                                              \
        body(kernels_named("neon"));                                                               \
    }                                                                                              \
    KIND(name##_neon_i8mm)                                                                         \
    {                                                                                              \
        body(kernels_named("neon-i8mm"));                                                          \
    }

#define KERNELS_TEST(body) KERNELS_EACH(TEST, kernels_##body, body)

static inline float random_float(uint64_t seed, uint64_t index, float range)
{
    return range * (2.0f * (float)rng_unit(seed, index) - 1.0f);
}

static inline void random_floats(uint64_t seed, float *x, size_t n, float range)
{
    for (size_t i = 0; i < n; i++)
        x[i] = random_float(seed, i, range);
}

static inline void check_close(const char *what, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        test_fail(__FILE__, __LINE__, "%s: %.9g, want %.9g, off by %.3g, allowed %.3g", what, got,
                  want, fabs(got - want), bound);
}

#endif
