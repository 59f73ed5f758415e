/*
 * What a night's samples look like over time: series for plots, thinned to what can be seen.
 *
 * Stays true: times never go back, whatever the clock did; between runs there is a gap.
 */
#ifndef BATCH_NIGHT_SERIES_H
#define BATCH_NIGHT_SERIES_H

#include "batch/night/night.h"
#include "batch/plot.h"

/* The value between two samples of a run; `before`: what the runs before it had finished. */
typedef double (*night_measure)(const struct queue_sample *a, const struct queue_sample *b,
                                double before);

struct night_series {
    double *x, *y; /* [n] seconds since 1970, values; the caller's: night_series_release */
    size_t n;
    bool any; /* a value that is not 0 */
};
int night_series(const struct night *n, night_measure measure, struct night_series *ret,
                 struct error *e);
void night_series_release(struct night_series *s);

/* Tokens a second; MiB a second; jobs; bytes; percent. */
double night_written_rate(const struct queue_sample *a, const struct queue_sample *b,
                          double before);
double night_read_rate(const struct queue_sample *a, const struct queue_sample *b, double before);
double night_disk_rate(const struct queue_sample *a, const struct queue_sample *b, double before);
double night_done(const struct queue_sample *a, const struct queue_sample *b, double before);
double night_resident(const struct queue_sample *a, const struct queue_sample *b, double before);
double night_planned(const struct queue_sample *a, const struct queue_sample *b, double before);
double night_some(const struct queue_sample *a, const struct queue_sample *b, double before);
double night_full(const struct queue_sample *a, const struct queue_sample *b, double before);

#endif
