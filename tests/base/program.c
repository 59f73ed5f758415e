#include "base/program.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static void *whole_page(const char *at)
{
    return (void *)((uintptr_t)at / (uintptr_t)sysconf(_SC_PAGESIZE) *
                    (uintptr_t)sysconf(_SC_PAGESIZE));
}

/* Pages of this program's code that are mapped, of the first so many from an address on. */
static unsigned mapped(const void *from, unsigned n)
{
    unsigned n_mapped = 0;
    FILE *f = fopen("/proc/self/pagemap", "rb");
    const long page = sysconf(_SC_PAGESIZE);
    uint64_t entry;
    CHECK(f != NULL);
    CHECK(fseek(f, (long)((uintptr_t)from / (uintptr_t)page * sizeof(entry)), SEEK_SET) == 0);
    for (unsigned i = 0; i < n; i++) {
        CHECK(fread(&entry, sizeof(entry), 1, f) == 1);
        n_mapped += (unsigned)(entry >> 63);
    }
    CHECK_INT(fclose(f), 0);
    return n_mapped;
}

extern const char __executable_start[], etext[];

TEST(program_is_in_memory_once_it_is_fetched)
{
    const long page = sysconf(_SC_PAGESIZE);
    const unsigned n =
        (unsigned)(((uintptr_t)etext - (uintptr_t)__executable_start) / (uintptr_t)page);
    CHECK(n > 16);
    if (test_emulated())
        SKIP("an emulator's memory is not as the page map says");
    if (madvise(whole_page(__executable_start), (size_t)page, MADV_POPULATE_READ) != 0)
        SKIP("this kernel cannot populate mappings");
    CHECK(madvise(whole_page(__executable_start), (size_t)(n * page), MADV_DONTNEED) == 0);
    program_fetch();
    CHECK_INT(mapped(__executable_start, n), n);
}
