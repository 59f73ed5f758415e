/*
 * Plots as SVG: lines, steps and points with error bars over numbers or over time.
 *
 * Owns nothing; plot_svg only appends text. Pure but for the time zone, which labels of a time axis
 * follow.
 *
 * Stays true: the same plot gives the same bytes, whatever the locale; the text is a well-formed XML
 * element whatever the names and figures are, without scripts, and stands in an HTML page as it is.
 * A value that is no number (or beyond 1e300) is a gap: a line breaks there, a point is left out, an
 * error bar is not drawn. No value at all is a frame that says so.
 *
 * Colours are classes: "plot" the element, "plot-text", "plot-grid", "plot-frame", and for the i-th
 * series "plot-line plot-0" .. "plot-7", "plot-point", "plot-error". plot_style() has rules for them,
 * for light and dark screens and for paper; a page puts it into its <style> once and may add rules after it.
 */
#ifndef BATCH_PLOT_H
#define BATCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

#define PLOT_COLORS 8

enum plot_mark {
    PLOT_LINE,
    PLOT_STEP, /* a value holds until the next one */
    PLOT_POINTS,
    PLOT_LINE_POINTS,
};

struct plot_series {
    const char *name; /* in the legend; NULL: not there */
    enum plot_mark mark;
    size_t n;
    const double *x;     /* [n] ascending for lines and steps */
    const double *y;     /* [n] */
    const double *error; /* [n] bars from y - error to y + error; NULL: none */
};

struct plot_axis {
    const char *label; /* with its unit: "decode, tokens/s" */
    bool time;         /* values are seconds since 1970; labels are local time */
    bool zero;         /* begins at 0 where no value is below; error bars end there, too */
};

struct plot {
    const char *title;
    struct plot_axis x, y;
    const struct plot_series *series; /* [n_series] */
    size_t n_series;
    int width, height; /* in pixels; 0: 720 by 360 */
    bool alone;        /* a file of its own: with plot_style() inside */
};

int plot_svg(struct buf *out, const struct plot *p, struct error *e);
const char *plot_style(void);

#endif
