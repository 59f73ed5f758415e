#include "batch/plot.h"

#include <math.h>
#include <string.h>

#include "batch/markup.h"
#include "batch/plot_ticks.h"

#define WIDTH 720
#define HEIGHT 360
#define TITLE_HEIGHT 30
#define LEGEND_HEIGHT 20
#define MARGIN 16
#define BOTTOM 46    /* labels of ticks and of the axis */
#define CHAR_WIDTH 7 /* of the widest usual font at 12 px: a guess that is rather too large */
#define TICK_EVERY_X 80
#define TICK_EVERY_Y 44
#define CAP 4 /* half of an error bar's end */
#define LEGEND_MARK 22
#define LEGEND_GAP 18

/* Where the values are drawn, in pixels, and which values those are. */
struct frame {
    const struct plot *p;
    struct buf *out;
    int width, height;
    double left, right, top, bottom;
    struct plot_range x, y;
    struct plot_ticks x_ticks, y_ticks;
};

const char *plot_style(void)
{
    return ".plot{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif;color:#24292f}\n"
           "body .plot{max-width:100%;height:auto}\n"
           ".plot-text{fill:currentColor;font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;"
           "font-size:12px}\n"
           ".plot-title{font-size:14px;font-weight:600}\n"
           ".plot-grid{stroke:#8b949e;stroke-opacity:.3;stroke-width:1;fill:none}\n"
           ".plot-frame{stroke:#8b949e;stroke-width:1;fill:none}\n"
           ".plot-line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
           ".plot-error{fill:none;stroke-width:1.5}\n"
           ".plot-0{color:#0969da}.plot-1{color:#bc4c00}.plot-2{color:#1a7f37}.plot-3{color:#"
           "8250df}\n"
           ".plot-4{color:#bf3989}.plot-5{color:#1b7c83}.plot-6{color:#9a6700}.plot-7{color:#"
           "57606a}\n"
           ".plot-line,.plot-error{stroke:currentColor}.plot-point{fill:currentColor}\n"
           "@media (prefers-color-scheme:dark){.plot{color:#e6edf3}"
           ".plot-0{color:#58a6ff}.plot-1{color:#f0883e}.plot-2{color:#3fb950}.plot-3{color:#"
           "bc8cff}"
           ".plot-4{color:#f778ba}.plot-5{color:#39c5cf}.plot-6{color:#d29922}.plot-7{color:#"
           "8b949e}}\n"
           "@media print{.plot{color:#000;break-inside:avoid}.plot-0{color:#0550ae}"
           ".plot-1{color:#953800}.plot-2{color:#116329}.plot-3{color:#6639ba}.plot-4{color:#"
           "99286e}"
           ".plot-5{color:#0f5257}.plot-6{color:#7d4e00}.plot-7{color:#424a53}"
           ".plot-1,.plot-3,.plot-5,.plot-7{stroke-dasharray:7 4}}\n";
}

/* ---- Small pieces ----------------------------------------------------------------------------- */

/* Tenths of a pixel, as integers: no locale has a say. A place far outside, or none, stays outside. */
static void put_number(struct buf *out, double pixels)
{
    const long tenths = lround(fmin(fmax(pixels, -1e6), 1e6) * 10);
    const long size = tenths < 0 ? -tenths : tenths;
    buf_printf(out, "%s%ld", tenths < 0 ? "-" : "", size / 10);
    if (size % 10)
        buf_printf(out, ".%ld", size % 10);
}

static void put_pair(struct buf *out, char command, double x, double y)
{
    buf_append(out, &command, 1);
    put_number(out, x);
    buf_append_c(out, " ");
    put_number(out, y);
}

static void put_one(struct buf *out, char command, double v)
{
    buf_append(out, &command, 1);
    put_number(out, v);
}

/* anchor: "start", "middle" or "end"; more: attributes, each with a space before it. */
static void put_text(struct buf *out, double x, double y, const char *anchor, const char *more,
                     const char *text)
{
    buf_append_c(out, "<text x=\"");
    put_number(out, x);
    buf_append_c(out, "\" y=\"");
    put_number(out, y);
    buf_printf(out, "\" text-anchor=\"%s\"%s>", anchor, more);
    markup_text(out, str_of(text));
    buf_append_c(out, "</text>\n");
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static double at_x(const struct frame *f, double v)
{
    return f->left + (v - f->x.low) / (f->x.high - f->x.low) * (f->right - f->left);
}

static double at_y(const struct frame *f, double v)
{
    return f->bottom - (v - f->y.low) / (f->y.high - f->y.low) * (f->bottom - f->top);
}

static bool drawn(const struct plot_series *s, size_t i)
{
    return plot_value(s->x[i]) && plot_value(s->y[i]);
}

static bool has_bar(const struct plot_series *s, size_t i)
{
    return s->error && s->error[i] > 0 && plot_value(s->y[i] - s->error[i]) &&
           plot_value(s->y[i] + s->error[i]);
}

/* The lower end of a bar; what cannot be below 0 does not make room for less. */
static double bar_end(const struct plot *p, const struct plot_series *s, size_t i)
{
    const double low = s->y[i] - s->error[i];
    return p->y.zero && s->y[i] >= 0 && low < 0 ? 0 : low;
}

/* ---- Where everything is ---------------------------------------------------------------------- */

static void find_ranges(struct frame *f)
{
    const struct plot *p = f->p;
    f->x = f->y = plot_range_empty();
    for (size_t k = 0; k < p->n_series; k++) {
        const struct plot_series *s = &p->series[k];
        for (size_t i = 0; i < s->n; i++) {
            if (!drawn(s, i))
                continue;
            plot_range_add(&f->x, s->x[i]);
            plot_range_add(&f->y, s->y[i]);
            if (has_bar(s, i)) {
                plot_range_add(&f->y, bar_end(p, s, i));
                plot_range_add(&f->y, s->y[i] + s->error[i]);
            }
        }
    }
    if (p->x.zero && f->x.low <= f->x.high)
        plot_range_add(&f->x, 0);
    if (p->y.zero && f->y.low <= f->y.high)
        plot_range_add(&f->y, 0);
}

static void find_ticks(const struct plot_axis *a, struct plot_ticks *t, struct plot_range *r,
                       int wanted)
{
    if (a->time)
        plot_ticks_time(t, r, wanted);
    else
        plot_ticks_number(t, r, wanted);
}

static size_t widest_label(const struct plot_ticks *t)
{
    char label[PLOT_LABEL_BYTES];
    size_t widest = 0;
    for (int64_t i = t->first; i <= t->last; i++)
        widest = MAX_OF(widest, strlen(plot_tick_label(t, i, label)));
    return widest;
}

static double legend_width(const char *name)
{
    return LEGEND_MARK + LEGEND_GAP + CHAR_WIDTH * (double)characters(name);
}

/* Writes the legend's entries in rows, or, without `out`, only counts the rows. */
static int legend(const struct frame *f, struct buf *out);

static void lay_out(struct frame *f)
{
    const struct plot *p = f->p;
    f->width = p->width > 0 ? p->width : WIDTH;
    f->height = p->height > 0 ? p->height : HEIGHT;
    find_ranges(f);
    f->left = MARGIN;
    f->right = f->width - MARGIN;
    f->top = 6 + (p->title ? TITLE_HEIGHT : MARGIN) + LEGEND_HEIGHT * legend(f, NULL);
    f->bottom = f->height - BOTTOM;
    if (f->bottom < f->top + TICK_EVERY_Y)
        f->bottom = f->top + TICK_EVERY_Y;
    find_ticks(&p->y, &f->y_ticks, &f->y, MAX_OF((int)(f->bottom - f->top) / TICK_EVERY_Y, 2));
    f->left += 8 + CHAR_WIDTH * (double)widest_label(&f->y_ticks) + (p->y.label ? 18 : 0);
    f->right -= 6;
    if (f->right < f->left + TICK_EVERY_X)
        f->right = f->left + TICK_EVERY_X;
    find_ticks(&p->x, &f->x_ticks, &f->x, MAX_OF((int)(f->right - f->left) / TICK_EVERY_X, 2));
}

/* ---- Drawing ---------------------------------------------------------------------------------- */

static void draw_grid(const struct frame *f)
{
    struct buf *out = f->out;
    buf_append_c(out, "<path class=\"plot-grid\" d=\"");
    for (int64_t i = f->y_ticks.first; i <= f->y_ticks.last; i++) {
        put_pair(out, 'M', f->left, at_y(f, plot_tick_value(&f->y_ticks, i)));
        put_one(out, 'H', f->right);
    }
    for (int64_t i = f->x_ticks.first; i <= f->x_ticks.last; i++) {
        put_pair(out, 'M', at_x(f, plot_tick_value(&f->x_ticks, i)), f->top);
        put_one(out, 'V', f->bottom);
    }
    buf_append_c(out, "\"/>\n<path class=\"plot-frame\" d=\"");
    put_pair(out, 'M', f->left, f->top);
    put_one(out, 'V', f->bottom);
    put_one(out, 'H', f->right);
    buf_append_c(out, "\"/>\n");
}

static void draw_labels(const struct frame *f)
{
    struct buf *out = f->out;
    char label[PLOT_LABEL_BYTES];
    const double middle = (f->top + f->bottom) / 2;
    buf_append_c(out, "<g class=\"plot-text\">\n");
    if (f->p->title)
        put_text(out, MARGIN, 20, "start", " class=\"plot-text plot-title\"", f->p->title);
    for (int64_t i = f->y_ticks.first; i <= f->y_ticks.last; i++)
        put_text(out, f->left - 7, at_y(f, plot_tick_value(&f->y_ticks, i)) + 4, "end", "",
                 plot_tick_label(&f->y_ticks, i, label));
    for (int64_t i = f->x_ticks.first; i <= f->x_ticks.last; i++)
        put_text(out, at_x(f, plot_tick_value(&f->x_ticks, i)), f->bottom + 17, "middle", "",
                 plot_tick_label(&f->x_ticks, i, label));
    if (f->p->x.label)
        put_text(out, (f->left + f->right) / 2, f->bottom + 38, "middle", "", f->p->x.label);
    if (f->p->y.label) {
        buf_append_c(out, "<g transform=\"translate(");
        put_pair(out, ' ', MARGIN + 4, middle);
        buf_append_c(out, ") rotate(-90)\">");
        put_text(out, 0, 0, "middle", "", f->p->y.label);
        buf_append_c(out, "</g>\n");
    }
    buf_append_c(out, "</g>\n");
}

static void draw_line(const struct frame *f, const struct plot_series *s, size_t color)
{
    struct buf *out = f->out;
    bool open = false;
    buf_printf(out, "<path class=\"plot-line plot-%zu\" d=\"", color);
    for (size_t i = 0; i < s->n; i++) {
        if (!drawn(s, i)) {
            open = false;
            continue;
        }
        const double x = at_x(f, s->x[i]), y = at_y(f, s->y[i]);
        if (open && s->mark == PLOT_STEP)
            put_one(out, 'H', x);
        if (open && s->mark == PLOT_STEP)
            put_one(out, 'V', y);
        else
            put_pair(out, open ? 'L' : 'M', x, y);
        /* A value alone between gaps: round ends make it a dot. */
        if (!open && (i + 1 == s->n || !drawn(s, i + 1)))
            buf_append_c(out, "h0");
        open = true;
    }
    buf_append_c(out, "\"/>\n");
}

static void draw_bars(const struct frame *f, const struct plot_series *s, size_t color)
{
    struct buf *out = f->out;
    buf_printf(out, "<path class=\"plot-error plot-%zu\" d=\"", color);
    for (size_t i = 0; i < s->n; i++) {
        if (!drawn(s, i) || !has_bar(s, i))
            continue;
        const double x = at_x(f, s->x[i]);
        const double end[2] = {at_y(f, bar_end(f->p, s, i)), at_y(f, s->y[i] + s->error[i])};
        put_pair(out, 'M', x, end[0]);
        put_one(out, 'V', end[1]);
        for (int k = 0; k < 2; k++) {
            put_pair(out, 'M', x - CAP, end[k]);
            put_one(out, 'H', x + CAP);
        }
    }
    buf_append_c(out, "\"/>\n");
}

static void put_point(struct buf *out, double x, double y)
{
    buf_append_c(out, "<circle cx=\"");
    put_number(out, x);
    buf_append_c(out, "\" cy=\"");
    put_number(out, y);
    buf_append_c(out, "\" r=\"3.5\"/>");
}

static void draw_points(const struct frame *f, const struct plot_series *s, size_t color)
{
    buf_printf(f->out, "<g class=\"plot-point plot-%zu\">", color);
    for (size_t i = 0; i < s->n; i++) {
        if (drawn(s, i))
            put_point(f->out, at_x(f, s->x[i]), at_y(f, s->y[i]));
    }
    buf_append_c(f->out, "</g>\n");
}

static void draw_series(const struct frame *f)
{
    for (size_t k = 0; k < f->p->n_series; k++) {
        const struct plot_series *s = &f->p->series[k];
        if (s->mark != PLOT_POINTS)
            draw_line(f, s, k % PLOT_COLORS);
        if (s->error)
            draw_bars(f, s, k % PLOT_COLORS);
        if (s->mark == PLOT_POINTS || s->mark == PLOT_LINE_POINTS)
            draw_points(f, s, k % PLOT_COLORS);
    }
}

/* Line, dot or both, then the name. */
static void put_legend(struct buf *out, const struct plot_series *s, size_t color, double x,
                       double y)
{
    if (s->mark != PLOT_POINTS) {
        buf_printf(out, "<path class=\"plot-line plot-%zu\" d=\"", color);
        put_pair(out, 'M', x, y - 4);
        put_one(out, 'h', 16);
        buf_append_c(out, "\"/>");
    }
    if (s->mark == PLOT_POINTS || s->mark == PLOT_LINE_POINTS) {
        buf_printf(out, "<g class=\"plot-point plot-%zu\">", color);
        put_point(out, x + 8, y - 4);
        buf_append_c(out, "</g>");
    }
    put_text(out, x + LEGEND_MARK, y, "start", " class=\"plot-text\"", s->name);
}

static int legend(const struct frame *f, struct buf *out)
{
    double x = MARGIN;
    int rows = 0;
    for (size_t k = 0; k < f->p->n_series; k++) {
        const struct plot_series *s = &f->p->series[k];
        if (!s->name)
            continue;
        if (rows == 0 || x + legend_width(s->name) > f->width) {
            rows++;
            x = MARGIN;
        }
        if (out)
            put_legend(out, s, k % PLOT_COLORS, x,
                       (f->p->title ? TITLE_HEIGHT : MARGIN) + LEGEND_HEIGHT * rows - 8);
        x += legend_width(s->name);
    }
    return rows;
}

static void begin(const struct frame *f)
{
    struct buf *out = f->out;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
               "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
               f->width, f->height, f->width, f->height);
    if (f->p->alone)
        buf_printf(out, "<style>\n%s</style>\n", plot_style());
    if (f->p->title) {
        buf_append_c(out, "<title>");
        markup_text(out, str_of(f->p->title));
        buf_append_c(out, "</title>\n");
    }
}

int plot_svg(struct buf *out, const struct plot *p, struct error *e)
{
    struct frame f = {.p = p, .out = out};
    lay_out(&f);
    begin(&f);
    draw_grid(&f);
    draw_labels(&f);
    if (f.y.low <= f.y.high)
        draw_series(&f);
    else
        put_text(out, (f.left + f.right) / 2, (f.top + f.bottom) / 2, "middle",
                 " class=\"plot-text\"", "no values");
    legend(&f, out);
    buf_append_c(out, "</svg>\n");
    return buf_check(out, "a plot", e);
}
