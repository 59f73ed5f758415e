/*
 * Where an axis has its ticks, and what stands beside them.
 *
 * Ticks over numbers are whole multiples of 1, 2 or 5 times a power of ten, kept as integers, so that a
 * label is exact ("0.3", never "0.30000000000000004"). Ticks over time are multiples of what clocks and
 * calendars have (1, 2, 5, 10, 15, 30 s ...), in local time. Owns nothing.
 */
#ifndef BATCH_PLOT_TICKS_H
#define BATCH_PLOT_TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values beyond it are taken as none. */
#define PLOT_LIMIT 1e300

struct plot_range {
    double low, high; /* low > high: no value yet */
};
struct plot_range plot_range_empty(void);
bool plot_value(double v); /* whether it is one */
void plot_range_add(struct plot_range *r, double v);

struct plot_ticks {
    bool time;
    int64_t first, last; /* of the tick's number; last < first: none */
    int64_t step;        /* 1, 2 or 5; seconds of time */
    int exponent;        /* of ten; 0 for time */
    int64_t offset;      /* of local time, in seconds */
};

/*
 * About `wanted` ticks. A range without width is widened first; over numbers it is then widened to whole
 * ticks, over time it stays.
 */
void plot_ticks_number(struct plot_ticks *t, struct plot_range *r, int wanted);
void plot_ticks_time(struct plot_ticks *t, struct plot_range *r, int wanted);
double plot_tick_value(const struct plot_ticks *t, int64_t i);
#define PLOT_LABEL_BYTES 40
const char *plot_tick_label(const struct plot_ticks *t, int64_t i, char out[PLOT_LABEL_BYTES]);

#endif
