/*
 * The machine's memory as it stands: what is free, what could be, and in which pieces.
 *
 * Owns nothing; any thread. MemFree is not MemAvailable: page cache can be given up, and a GPU's driver
 * on unified memory sees only what is free. Pieces: /proc/buddyinfo, the free blocks by size; after days
 * of uptime there may be none of the largest, and a driver that needs those crawls or fails.
 */
#ifndef BATCH_HOST_MEMORY_H
#define BATCH_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks from this size on count as large; where the kernel has none that large, its largest. */
#define MEMORY_LARGE_BYTES (UINT64_C(32) << 20)

struct memory {
    uint64_t total_bytes, free_bytes, available_bytes;
    uint64_t swap_bytes, swap_used_bytes;
    uint64_t commit_limit_bytes, committed_bytes;
    /* free blocks; 0: the kernel does not tell */
    uint64_t large_block_bytes; /* from which size on they are counted */
    uint64_t large_blocks;      /* how many, in blocks of that size */
};

/* False: there is no such file, or it does not say what is available. root: as in machine.h. */
bool memory_read(const char *root, struct memory *ret);

/*
 * What a plan must leave: half of what machine_budget() keeps for others, so that a budget taken from
 * what was available still fits a moment later; and never more than a sixteenth of the machine.
 */
uint64_t memory_reserve(const struct memory *m);

#endif
