#include "base/alloc.h"

#include <stdint.h>

#include "tests/test.h"

TEST(alloc_refuses_sizes_that_overflow)
{
    CHECK(mem_array(SIZE_MAX / 2, 3) == NULL);
    char *block = mem_alloc(4);
    CHECK(block != NULL);
    memcpy(block, "abc", 4);
    CHECK(mem_regrow(block, SIZE_MAX / 2, 3) == NULL);
    CHECK_STR(block, "abc"); /* still valid */
    mem_free(block);
}

TEST(alloc_zeroes_and_copies)
{
    unsigned char *block = mem_array(100, 3);
    for (int i = 0; i < 300; i++)
        CHECK_INT(block[i], 0);
    mem_free(block);
    char *copy = mem_strndup("nocturne", 3);
    CHECK_STR(copy, "noc");
    mem_free(copy);
    void *nothing = mem_alloc(0);
    CHECK(nothing != NULL);
    mem_free(nothing);
    mem_free(NULL);
}

TEST(alloc_fails_from_the_kth_on)
{
    unsigned long before = mem_count();
    mem_fail_after(3);
    void *first = mem_alloc(1);
    char *second = mem_strdup("x");
    CHECK(first && second);
    CHECK(mem_zalloc(1) == NULL);
    CHECK(mem_array(1, 1) == NULL);
    CHECK(mem_regrow(first, 2, 1) == NULL);
    mem_fail_after(0);
    CHECK_INT(mem_count() - before, 5);
    void *third = mem_alloc(1);
    CHECK(third != NULL);
    mem_free(first);
    mem_free(second);
    mem_free(third);
}
