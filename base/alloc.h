/*
 * Small blocks from the heap: the only place that calls malloc.
 *
 * Blocks over 64 KiB that live on are taken through base/ledger.h instead.
 * Stays true: sizes never overflow (mem_array checks), every function may fail with NULL, mem_free
 * accepts NULL. Thread safe. mem_fail_after makes tests fail the k-th allocation and all that follow.
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

#include "base/compiler.h"

void *mem_alloc(size_t n) ATTR_MUST_USE;
void *mem_zalloc(size_t n) ATTR_MUST_USE;
/* count * size bytes, zeroed; NULL also when the product overflows. */
void *mem_array(size_t count, size_t size) ATTR_MUST_USE;
/* Grows or shrinks to count * size; the old block stays valid when it fails. */
void *mem_regrow(void *block, size_t count, size_t size) ATTR_MUST_USE;
char *mem_strdup(const char *s) ATTR_MUST_USE;
/* A copy of n bytes with a NUL after them. */
char *mem_strndup(const char *s, size_t n) ATTR_MUST_USE;
void mem_free(void *block);

/* k > 0: the k-th allocation from now fails, and all after it; 0: off. For tests. */
void mem_fail_after(long k);
/* Allocations made since the process started (for budgets asserted in tests). */
unsigned long mem_count(void);

#endif
