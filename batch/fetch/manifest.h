/*
 * SHA256SUMS: what a folder of fetched files should hold, in the form that `sha256sum -c` reads.
 *
 * Before a line of ours stands a comment with what that format has no room for: size, when the file was
 * last written, whether the hash was published by somebody (or only computed from what arrived), and
 * where it came from. Lines of others are kept and believed as they are.
 *
 *     #: 4096 1764512345123456789 published https://host/name.gguf
 *     <64 digits>  name.gguf
 *
 * Owns the entries. Stays true: the file is replaced whole or not at all. One thread.
 */
#ifndef BATCH_FETCH_MANIFEST_H
#define BATCH_FETCH_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "batch/fetch/list.h"

#define MANIFEST_NAME "SHA256SUMS"

struct manifest_entry {
    char *name;
    char *url; /* without secrets; "" unknown */
    char sha256[65];
    uint64_t size;      /* FETCH_UNKNOWN */
    int64_t written_ns; /* 0 unknown */
    bool published;
};

struct manifest {
    char *path;
    struct manifest_entry *entry; /* [n] */
    size_t n;
};

/* An absent file is an empty manifest. ERROR_BADDATA with the line that is none; names are shown, so
 * control characters in one are refused. */
int manifest_read(struct manifest *m, const char *dir, struct error *e);
void manifest_release(struct manifest *m); /* a zeroed one is fine */
struct manifest_entry *manifest_find(const struct manifest *m, const char *name);
/* Takes copies; an entry of that name is replaced. Nothing is written. */
int manifest_put(struct manifest *m, const struct manifest_entry *entry, struct error *e);
int manifest_write(const struct manifest *m, struct error *e);

#endif
