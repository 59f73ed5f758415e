/*
 * What a sweep found: means of each budget with 95 % confidence intervals, as a table, as JSON, as plots
 * and as a page.
 *
 * Owns nothing but its numbers. One thread.
 */
#ifndef BATCH_SWEEP_SUMMARY_H
#define BATCH_SWEEP_SUMMARY_H

#include "base/buf.h"
#include "batch/output.h"
#include "batch/statistics.h"
#include "batch/sweep/plan.h"
#include "batch/sweep/row.h"

enum sweep_metric {
    SWEEP_DECODE,
    SWEEP_PREFILL,
    SWEEP_BYTES,
    SWEEP_HITS,
    SWEEP_LOAD,
    SWEEP_RSS,
    SWEEP_PLAN,
    SWEEP_SOME,
    SWEEP_FULL,
    SWEEP_FAULTS,
    SWEEP_METRICS
};

struct sweep_point {
    uint64_t budget_bytes;
    size_t n_runs; /* that are done */
    const char
        *message; /* why there is none; belongs to the rows; NULL: there are some, or not yet */
    bool refused;
    struct statistics of[SWEEP_METRICS];
};

struct sweep_summary {
    const struct sweep_plan *plan;
    const struct sweep_rows *rows;
    size_t n;
    struct sweep_point point[SWEEP_BUDGETS_MAX]; /* [n] by budget */
};

/* Of the plan's budgets and repetitions; both must outlive it. */
void sweep_summary_make(struct sweep_summary *s, const struct sweep_plan *p,
                        const struct sweep_rows *r);
int sweep_summary_text(struct output *out, const struct sweep_summary *s, struct error *e);
int sweep_summary_json(struct output *out, const struct sweep_summary *s, struct error *e);
int sweep_summary_svg(struct buf *out, const struct sweep_summary *s, bool alone, struct error *e);
int sweep_summary_html(struct buf *out, const struct sweep_summary *s, struct error *e);

#endif
