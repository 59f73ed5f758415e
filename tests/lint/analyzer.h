/*
 * What the analyzer cannot see across files; tests/lint/tidy.sh puts it before every source.
 *
 * error_set and its kind always return a failure, and the allocator's functions are the C library's:
 * so null results, zeroed memory, leaks and uses after free are followed.
 */
#ifndef TESTS_LINT_ANALYZER_H
#define TESTS_LINT_ANALYZER_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define error_set(e, code, ...) ((void)error_set(e, code, __VA_ARGS__), -(int)(code))
#define error_sys(e, code, ...) ((void)error_sys(e, code, __VA_ARGS__), -(int)(code))
#define error_wrap(e, ...) ((void)error_wrap(e, __VA_ARGS__), -1)

#define mem_alloc(n) malloc(n)
#define mem_zalloc(n) calloc(1, n)
#define mem_array(count, size) calloc(count, size)
#define mem_regrow(block, count, size) realloc(block, (count) * (size))
#define mem_strdup(s) strdup(s)
#define mem_strndup(s, n) strndup(s, n)
#define mem_free(block) free(block)

#endif
