#include "base/ledger.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/countdown.h"
#include "base/str.h"

#define PAGE_BYTES ((size_t)4096)
#define HUGE_BYTES ((size_t)2 << 20)

struct ledger {
    uint64_t limit;
    atomic_long fail_countdown;
    _Atomic uint64_t total; /* raised before, and lowered after, the category it belongs to */
    _Atomic uint64_t total_peak;
    _Atomic uint64_t used[LEDGER_CATEGORIES];
    _Atomic uint64_t peak[LEDGER_CATEGORIES];
};

const char *ledger_category_name(enum ledger_category c)
{
    static const char *const name[LEDGER_CATEGORIES] = {
        [LEDGER_PROCESS] = "process", [LEDGER_TRUNK] = "trunk",     [LEDGER_SLOTS] = "slots",
        [LEDGER_STATE] = "state",     [LEDGER_SCRATCH] = "scratch", [LEDGER_IO] = "io",
    };
    return name[c];
}

int ledger_new(struct ledger **ret, uint64_t limit_bytes, struct error *e)
{
    struct ledger *l = mem_zalloc(sizeof(*l));
    if (!l)
        return error_set(e, ERROR_NOMEM, "memory ledger: no memory for %zu bytes", sizeof(*l));
    l->limit = limit_bytes;
    *ret = l;
    return 0;
}

void ledger_free(struct ledger *l)
{
    if (!l)
        return;
    for (int c = LEDGER_PROCESS + 1; c < LEDGER_CATEGORIES; c++)
        assert(atomic_load(&l->used[c]) == 0);
    mem_free(l);
}

static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (value > seen && !atomic_compare_exchange_weak(peak, &seen, value))
        continue;
}

static int refuse(const struct ledger *l, uint64_t total, enum ledger_category c, uint64_t bytes,
                  const char *what, struct error *e)
{
    char need[24];
    char left[24];
    char limit[24];
    return error_set(e, ERROR_BUDGET,
                     "%s (%s): needs %s (%" PRIu64 " bytes), %s left of %s (%" PRIu64 " of %" PRIu64
                     " bytes)",
                     what, ledger_category_name(c), str_format_size(bytes, need), bytes,
                     str_format_size(l->limit - total, left), str_format_size(l->limit, limit),
                     l->limit - total, l->limit);
}

int ledger_reserve(struct ledger *l, enum ledger_category c, uint64_t bytes, const char *what,
                   struct error *e)
{
    uint64_t total = atomic_load(&l->total);
    if (countdown_fires(&l->fail_countdown))
        return refuse(l, total, c, bytes, what, e);
    do {
        if (bytes > l->limit - total)
            return refuse(l, total, c, bytes, what, e);
    } while (!atomic_compare_exchange_weak(&l->total, &total, total + bytes));
    raise_peak(&l->total_peak, total + bytes);
    raise_peak(&l->peak[c], atomic_fetch_add(&l->used[c], bytes) + bytes);
    return 0;
}

void ledger_return(struct ledger *l, enum ledger_category c, uint64_t bytes)
{
    uint64_t used = atomic_fetch_sub(&l->used[c], bytes);
    uint64_t total = atomic_fetch_sub(&l->total, bytes);
    assert(used >= bytes && total >= bytes);
    (void)used;
    (void)total;
}

/* What a block of that many bytes takes from the budget; 0 when the size overflows. */
static size_t block_bytes(size_t bytes)
{
    size_t whole = ALIGN_UP(bytes, PAGE_BYTES);
    return whole < bytes ? 0 : MAX_OF(whole, PAGE_BYTES);
}

/*
 * The kernel gives huge pages only where a whole aligned 2 MiB lies inside the mapping, so a large
 * block is mapped with 2 MiB to spare and both ends are given back before anything is touched.
 */
static void *map_block(size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    bool huge = bytes >= HUGE_BYTES && bytes <= SIZE_MAX - HUGE_BYTES;
    size_t spare = huge ? HUGE_BYTES : 0;
    char *mapped = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == MAP_FAILED || !huge)
        return mapped == MAP_FAILED ? NULL : mapped;
    size_t head = (size_t)(-(uintptr_t)mapped & (HUGE_BYTES - 1));
    char *block = mapped + head;
    if (head > 0)
        munmap(mapped, head);
    if (spare > head)
        munmap(block + bytes, spare - head);
    madvise(block, bytes, MADV_HUGEPAGE); /* only advice: no answer changes anything */
    return block;
}

int ledger_alloc(struct ledger *l, enum ledger_category c, size_t bytes, const char *what,
                 void **ret, struct error *e)
{
    size_t whole = block_bytes(bytes);
    if (whole == 0)
        return refuse(l, atomic_load(&l->total), c, bytes, what, e);
    int rc = ledger_reserve(l, c, whole, what, e);
    if (rc < 0)
        return rc;
    void *block = map_block(whole);
    if (!block) {
        int sys = errno;
        ledger_return(l, c, whole);
        return error_sys(e, ERROR_NOMEM, sys, "%s (%s): mapping %zu bytes", what,
                         ledger_category_name(c), whole);
    }
    *ret = block;
    return 0;
}

void ledger_release(struct ledger *l, enum ledger_category c, void *block, size_t bytes)
{
    if (!block)
        return;
    munmap(block, block_bytes(bytes));
    ledger_return(l, c, block_bytes(bytes));
}

uint64_t ledger_limit(const struct ledger *l)
{
    return l->limit;
}

uint64_t ledger_used(const struct ledger *l, enum ledger_category c)
{
    return atomic_load(&l->used[c]);
}

uint64_t ledger_peak(const struct ledger *l, enum ledger_category c)
{
    return atomic_load(&l->peak[c]);
}

uint64_t ledger_total(const struct ledger *l)
{
    return atomic_load(&l->total);
}

uint64_t ledger_total_peak(const struct ledger *l)
{
    return atomic_load(&l->total_peak);
}

void ledger_fail_after(struct ledger *l, long k)
{
    atomic_store(&l->fail_countdown, k);
}
