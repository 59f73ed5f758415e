/*
 * Fuzz targets: `FUZZ(name) { ... bytes, n ... }` at column 0, in tests/fuzz/NAME.c.
 *
 * `make fuzz` links each file with libFuzzer. In the ordinary test runner (FUZZ_REPLAY) the same
 * function becomes the test fuzz_NAME, which runs it over the committed corpus, tests/fuzz/corpus/NAME:
 * what has crashed once is tried again by every `make test`.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file in memory that holds the bytes, whose path goes to `path`; the owner closes what it returns. */
static inline int fuzz_file(const uint8_t *bytes, size_t n, char path[64])
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* Runs the target over its committed corpus. */
void fuzz_replay(const char *name, void (*target)(const uint8_t *bytes, size_t n));

#ifdef FUZZ_REPLAY
#include "tests/test.h"

#define FUZZ(ident)                                                                                \
    static void fuzz_##ident(const uint8_t *bytes, size_t n);                                      \
    TEST(fuzz_##ident)                                                                             \
    {                                                                                              \
        fuzz_replay(#ident, fuzz_##ident);                                                         \
    }                                                                                              \
    static void fuzz_##ident(const uint8_t *bytes, size_t n)
#else
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define FUZZ(ident)                                                                                \
    static void fuzz_##ident(const uint8_t *bytes, size_t n);                                      \
    int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)                                     \
    {                                                                                              \
        fuzz_##ident(bytes, n);                                                                    \
        return 0;                                                                                  \
    }                                                                                              \
    static void fuzz_##ident(const uint8_t *bytes, size_t n)
#endif

static inline void demand(bool condition)
{
    if (!condition)
        abort();
}

#endif
