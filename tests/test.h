/*
 * Tests: `TEST(name) { ... }` at column 0 is enough; the runner finds it.
 *
 * Each test runs in a process of its own with an alarm and an empty scratch folder as its working
 * directory (test_dir()). A failed CHECK ends the test. SKIP says why and is counted apart.
 * Goldens: test_golden("models/x.gguf", path) looks in $NOCTURNE_GOLDEN, then tests/fixtures/golden
 * (the shipped subset), then ../shared/golden, and tells whether it is there.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum test_kind { TEST_SHORT, TEST_LONG };

struct test {
    const char *name;
    const char *file;
    enum test_kind kind;
    int seconds; /* alarm */
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *t);
void test_fail(const char *file, int line, const char *fmt, ...) ATTR_PRINTF(3, 4)
    __attribute__((noreturn));
void test_skip(const char *file, int line, const char *fmt, ...) ATTR_PRINTF(3, 4)
    __attribute__((noreturn));
/* A line that the runner prints beside the test's result even when it passes (measured errors). */
void test_note(const char *fmt, ...) ATTR_PRINTF(1, 2);
const char *test_dir(void);
/* Writes the path of a golden file to out[4096]; false when the set that has it is not here. */
bool test_golden(const char *name, char *out);
/* Root of the source tree (absolute) and path of the built program under test. */
const char *test_source_root(void);
const char *test_program(void);
/* Whether this is another processor's build under an emulator of processes. */
bool test_emulated(void);

#define TEST_ENTRY(ident, test_kind_, limit)                                                       \
    static void test_##ident(void);                                                                \
    __attribute__((constructor)) static void test_register_##ident(void)                           \
    {                                                                                              \
        static struct test t = {.name = #ident,                                                    \
                                .file = __FILE__,                                                  \
                                .kind = test_kind_,                                                \
                                .seconds = limit,                                                  \
                                .run = test_##ident};                                              \
        test_register(&t);                                                                         \
    }                                                                                              \
    static void test_##ident(void)

#define TEST(ident) TEST_ENTRY(ident, TEST_SHORT, 60)
#define TEST_FOR(ident, limit) TEST_ENTRY(ident, TEST_SHORT, limit)
#define LONG_TEST(ident) TEST_ENTRY(ident, TEST_LONG, 1800) /* runs in make test-long only */

#define SKIP(...) test_skip(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP_EMULATED(why)                                                                         \
    do {                                                                                           \
        if (test_emulated())                                                                       \
            SKIP("under an emulator: %s", why);                                                    \
    } while (0)
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            test_fail(__FILE__, __LINE__, "%s", #cond);                                            \
    } while (0)
#define CHECK_INT(got, want)                                                                       \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_)                                                                         \
            test_fail(__FILE__, __LINE__, "%s is %lld, want %lld", #got, got_, want_);             \
    } while (0)
#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (!got_ || strcmp(got_, want_) != 0)                                                     \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", want \"%s\"", #got, got_ ? got_ : "NULL", \
                      want_);                                                                      \
    } while (0)
/* The call returns 0; the message shows the error otherwise. */
#define CHECK_OK(call, e)                                                                          \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != 0)                                                                              \
            test_fail(__FILE__, __LINE__, "%s: %d: %s", #call, rc_, (e)->text);                    \
    } while (0)
/* The call fails with that code and its sentence contains the text. */
#define CHECK_ERROR(call, e, want_code, part)                                                      \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != -(int)(want_code) || !strstr((e)->text, part))                                  \
            test_fail(__FILE__, __LINE__, "%s: %d: \"%s\", want %d with \"%s\"", #call, rc_,       \
                      (e)->text, -(int)(want_code), part);                                         \
    } while (0)

#endif
