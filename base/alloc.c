#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/countdown.h"

static atomic_long fail_countdown;
static atomic_ulong n_allocations;

static bool refused(void)
{
    atomic_fetch_add_explicit(&n_allocations, 1, memory_order_relaxed);
    return countdown_fires(&fail_countdown);
}

void *mem_alloc(size_t n)
{
    if (refused())
        return NULL;
    return malloc(n > 0 ? n : 1);
}

void *mem_zalloc(size_t n)
{
    return mem_array(n, 1);
}

void *mem_array(size_t count, size_t size)
{
    size_t n;
    if (refused() || __builtin_mul_overflow(count, size, &n))
        return NULL;
    return calloc(1, n > 0 ? n : 1);
}

void *mem_regrow(void *block, size_t count, size_t size)
{
    size_t n;
    if (refused() || __builtin_mul_overflow(count, size, &n))
        return NULL;
    return realloc(block, n > 0 ? n : 1);
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *copy = mem_alloc(n + 1);
    if (!copy)
        return NULL;
    if (n > 0)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

void mem_free(void *block)
{
    free(block);
}

void mem_fail_after(long k)
{
    atomic_store(&fail_countdown, k);
}

unsigned long mem_count(void)
{
    return atomic_load(&n_allocations);
}
