/*
 * One run of a sweep as a line of CSV, and the file of such lines.
 *
 * Owns the rows and the open file. Stays true: a row is in the file, flushed, before anything else
 * happens; a line that a crash cut short is taken off when the file is opened again; all rows of a
 * file are of one sweep (`key`: model, request and every option but budgets, repetitions and order),
 * or the file is refused. One thread.
 */
#ifndef BATCH_SWEEP_ROW_H
#define BATCH_SWEEP_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SWEEP_KEY_BYTES 17
#define SWEEP_ROWS_MAX 8000 /* a list of them stays below 64 KiB */

enum sweep_state {
    SWEEP_DONE,
    SWEEP_REFUSED, /* the budget does not do; for good */
    SWEEP_FAILED,  /* another run may do better */
};

/* NAN: not known. */
struct sweep_row {
    uint64_t budget_bytes;
    uint64_t repetition; /* from 1 */
    uint64_t state;      /* enum sweep_state */
    double decode_per_s; /* tokens a second, from the first token on */
    double prefill_per_s;
    double bytes_per_token; /* read from disk, of those */
    double hit_rate;        /* of experts that those wanted */
    double load_s;
    double peak_rss_bytes; /* of the process */
    double plan_bytes;     /* the most that the ledger had */
    double some, full;     /* memory pressure: share of the time in which it answered */
    double major_faults;   /* in that time */
    double prompt_tokens, tokens;
    char digest[65]; /* of the tokens' ids */
    char key[SWEEP_KEY_BYTES];
    char at[32];       /* when it began */
    char message[400]; /* why it has no figures */
};

struct sweep_rows {
    struct sweep_row **row; /* [n] */
    size_t n;
    const char *path; /* NULL: no file */
    int fd;
};

/* Reads what is there; `path` NULL: rows stay in memory. ERROR_INVALID: rows of another sweep. */
int sweep_rows_open(struct sweep_rows *r, const char *path, const char *key, struct error *e);
void sweep_rows_close(struct sweep_rows *r);
int sweep_rows_add(struct sweep_rows *r, const struct sweep_row *row, struct error *e);
/*
 * The row that answers for a budget and a repetition: one that is done, or that refuses the budget; NULL:
 * none yet.
 */
const struct sweep_row *sweep_rows_find(const struct sweep_rows *r, uint64_t budget_bytes,
                                        uint64_t repetition);
/*
 * ERROR_BADDATA, naming two runs, when not all that are done wrote the same tokens: the same request gives
 * the same tokens at any budget.
 */
int sweep_rows_agree(const struct sweep_rows *r, struct error *e);

#endif
