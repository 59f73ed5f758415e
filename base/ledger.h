/*
 * The memory budget: every block over 64 KiB is reserved here before it is taken.
 *
 * Owns the counts per category and, through ledger_alloc, the blocks. Reserving beyond the limit
 * fails with ERROR_BUDGET and both figures; nothing ever waits or swaps.
 * Stays true: sum of categories <= limit, at every instant, from every thread (atomic). A block is
 * returned with the size and category it was taken with. Small blocks (base/alloc) live inside the
 * `process` term that is reserved at start.
 */
#ifndef BASE_LEDGER_H
#define BASE_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum ledger_category {
    LEDGER_PROCESS, /* binary, vocabulary, SQLite, all small blocks */
    LEDGER_TRUNK,   /* weights every token needs */
    LEDGER_SLOTS,   /* expert slots */
    LEDGER_STATE,   /* attention caches, recurrent state */
    LEDGER_SCRATCH, /* activations */
    LEDGER_IO,      /* read and write buffers, page cache caused */
    LEDGER_CATEGORIES
};

#define LEDGER_NO_LIMIT UINT64_MAX

struct ledger;

const char *ledger_category_name(enum ledger_category c);

int ledger_new(struct ledger **ret, uint64_t limit_bytes, struct error *e);
void ledger_free(struct ledger *l); /* NULL is fine; asserts that no block is left */

/* `what` names the object in the refusal: "attention cache". */
int ledger_reserve(struct ledger *l, enum ledger_category c, uint64_t bytes, const char *what,
                   struct error *e);
void ledger_return(struct ledger *l, enum ledger_category c, uint64_t bytes);

/*
 * Reserves and takes a zeroed block aligned to 4096 (mmap, rounded up to whole pages, transparent huge
 * pages asked for when it is 2 MiB or more). *ret is untouched on failure.
 */
int ledger_alloc(struct ledger *l, enum ledger_category c, size_t bytes, const char *what,
                 void **ret, struct error *e);
void ledger_release(struct ledger *l, enum ledger_category c, void *block, size_t bytes);

uint64_t ledger_limit(const struct ledger *l);
uint64_t ledger_used(const struct ledger *l, enum ledger_category c);
uint64_t ledger_peak(const struct ledger *l, enum ledger_category c);
uint64_t ledger_total(const struct ledger *l);
uint64_t ledger_total_peak(const struct ledger *l);

/* k > 0: the k-th reservation from now is refused, and all after it. For tests. */
void ledger_fail_after(struct ledger *l, long k);

#endif
