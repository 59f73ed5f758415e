/*
 * Files from web servers into a folder, each either whole and verified or not there under its name.
 *
 * Every file is asked about first (size, validators, hash), so that the disk is known to hold them all;
 * then its segments are fetched over several connections, cuts and stalls are waited out, and what
 * arrived is read back from the disk and hashed on a thread of its own while others still arrive. Then
 * it enters the manifest and gets its name.
 *
 * Stays true:
 *  - A name appears only with the size that was promised and, where a SHA-256 is known (the list's, a
 *    hub's X-Linked-Etag, an ETag that is one), with that hash.
 *  - Ranges, in parallel or behind what is there, are trusted only as far as something tells when they
 *    lie: without a hash a file comes over one connection, goes on only under the same validator, and
 *    the bytes around the seam are compared.
 *  - Whatever ends it, running it again goes on: parts and their states stay beside the files.
 *
 * Owns the folder for its time (flock). One thread calls it; it starts one more.
 */
#ifndef BATCH_FETCH_FETCH_H
#define BATCH_FETCH_FETCH_H

#include "batch/fetch/list.h"
#include "batch/report.h"

struct fetch_options {
    const struct fetch_list *list;
    const char *dir;   /* made when missing */
    const char *token; /* for the URLs' host; NULL none */
    unsigned connections;
    int64_t give_up_us; /* without a new byte of a file */
    int64_t stall_us;   /* without a byte on a connection; 0: 30 s */
    int64_t pause_us;   /* before the first retry, then doubling up to a minute; 0: 1 s */
    uint64_t cut_bytes; /* length of segments; 0: by the size */
    struct report *report;
    bool (*stopped)(void *context);
    void *context;
};

struct fetch_result {
    size_t n_there; /* already, and unchanged since they were verified */
    size_t n_fetched;
    size_t n_unhashed; /* of them: nobody published a SHA-256 */
    size_t n_failed;
    uint64_t fetched_bytes;
};

/*
 * Failures of single files are reported as they happen; the first of them is what is returned when
 * everything else is done. ERROR_FULL and ERROR_INTERRUPTED end it at once.
 */
int fetch(const struct fetch_options *o, struct fetch_result *ret, struct error *e);

#endif
