/*
 * The SHA-256 of a file, read once from one end to the other: as it stands on the disk, through a small
 * buffer, and without leaving it in the page cache.
 *
 * Owns nothing. Threads: any; the callbacks are called from the caller's.
 */
#ifndef BATCH_FETCH_DIGEST_H
#define BATCH_FETCH_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct digest {
    uint64_t size;
    int64_t written_ns;
    char sha256[65];
};

/* progress: told how many bytes more were read; true ends it with ERROR_INTERRUPTED. May be NULL. */
int digest_file(const char *path, bool (*progress)(void *context, uint64_t more_bytes),
                void *context, struct digest *ret, struct error *e);

#endif
