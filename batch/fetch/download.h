/*
 * One file on its way: what is known of it, what it waits for, and what follows from how a request or
 * its check ended. No request is made here; fetch.c does that.
 *
 *     ASK -> FETCH -> CHECK -> DONE      a file of that name that is there already: ASK -> CHECK -> DONE
 *      ^-------+--------+                another file on the server, lies, a wrong hash: again
 *
 * Owns the part. One thread, but for `checker`.
 */
#ifndef BATCH_FETCH_DOWNLOAD_H
#define BATCH_FETCH_DOWNLOAD_H

#include "batch/fetch/digest.h"
#include "batch/fetch/fetch.h"
#include "batch/fetch/manifest.h"
#include "batch/fetch/transfer.h"

enum download_state {
    DOWNLOAD_ASK,
    DOWNLOAD_FETCH,
    DOWNLOAD_CHECK,
    DOWNLOAD_DONE,
    DOWNLOAD_FAILED
};

struct download {
    const struct fetch_item *item;
    const struct fetch_options *options;
    struct part part;
    enum download_state state;
    struct remote remote;
    char sha256[65]; /* what it must be; "": unknown */
    bool guessed;    /* that is an ETag's */
    bool there;      /* a file of that name is: it is checked, not fetched */
    bool plain;      /* the server's ranges are of no use */
    bool careful;    /* a hash was wrong: over one connection, comparing at seams */
    bool opened;     /* the part is */
    unsigned n_restarts, n_wrong;
    /* failures since something new came */
    unsigned n_failures;
    uint64_t best_bytes;
    int64_t failing_since_us, not_before_us; /* monotonic; 0: not */
    struct error why;                        /* FAILED */
};

int download_init(struct download *d, const struct fetch_item *item, const struct fetch_options *o,
                  struct error *e);
/* Looks whether the file is there already, as the manifest knows it. */
int download_look(struct download *d, const struct manifest *m, struct error *e);
void download_release(struct download *d);

/* Bytes of the disk that it will still take. */
uint64_t download_wants_bytes(const struct download *d);
bool download_hashed(const struct download *d);
/* Whether requests with ranges are to be made of it. */
bool download_ranged(const struct download *d);
/* Opens the part: everything is known. Negative: the disk. */
int download_open(struct download *d, struct error *e);

void download_asked(struct download *d, const struct answer *a, const struct transfer_outcome *o);
/* A segment's request ended. `restart`: requests of the file that still run are void. */
void download_fetched(struct download *d, const struct transfer_outcome *o, bool *ret_restart);
/* All of it is there and saved; now[sha256] is what was read back. Puts it into the manifest. */
int download_checked(struct download *d, const struct digest *now, struct manifest *m,
                     struct error *e);
void download_fail(struct download *d, const struct error *why);
/* The next segment that has something missing, from i on; part.n: none. */
uint32_t download_next_segment(const struct download *d, uint32_t i);

#endif
