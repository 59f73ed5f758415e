/* The part of a night's page that is drawn over time: when it worked, how fast, with what memory. */
#include "batch/night/parts.h"
#include "batch/night/series.h"

/* Two beside each other on a screen and, smaller but to be read, on A4. */
#define PLOT_WIDTH 470
#define PLOT_HEIGHT 225

/* ---- The strip: when it worked ---------------------------------------------------------------- */

static void put_part(struct buf *out, const char *class, double from, double until)
{
    if (until > from)
        buf_printf(out, "<rect class=\"%s\" x=\"%d\" y=\"0\" width=\"%d\" height=\"10\"/>", class,
                   (int)from, (int)MAX_OF(until - from, 1.0));
}

static const char *part_class(const struct queue_sample *a, const struct queue_sample *b)
{
    static const char *const names[] = {"work", "held", "idle"};
    return names[night_kind_of_time(a, b)];
}

static void put_strip_run(const struct night *n, const struct night_run *r, struct buf *out)
{
    const double span_us = (double)MAX_OF(n->until_us - n->from_us, INT64_C(1));
    const char *class = NULL;
    double from = 0, until = 0;
    for (size_t i = 1; i < r->n_samples; i++) {
        const struct queue_sample *a = &r->sample[i - 1], *b = &r->sample[i];
        const char *now = part_class(a, b);
        if (class != now) {
            if (class)
                put_part(out, class, from, until);
            from = (double)(a->at_us - n->from_us) / span_us * 10000;
            class = now;
        }
        until = (double)(b->at_us - n->from_us) / span_us * 10000;
    }
    if (class)
        put_part(out, class, from, until);
}

static void put_strip(const struct night *n, struct buf *out)
{
    static const struct {
        const char *class, *text;
    } keys[] = {{"work", "at work"}, {"held", "held up"}, {"idle", "idle or loading"}};
    buf_append_c(out, "<svg class=\"strip\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                      "aria-label=\"when it worked\" viewBox=\"0 0 10000 10\" "
                      "preserveAspectRatio=\"none\">");
    for (size_t i = 0; i < n->n_runs; i++)
        put_strip_run(n, &n->run[i], out);
    buf_append_c(out, "</svg>\n<div class=\"key\">");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        buf_printf(out,
                   "<span><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 10 10\">"
                   "<rect class=\"%s\" width=\"10\" height=\"10\"/></svg>%s</span>",
                   keys[i].class, keys[i].text);
    buf_append_c(out, "<span>blank: no worker</span></div>\n");
}

/* ---- Plots ------------------------------------------------------------------------------------ */

struct plot_of {
    const char *title, *label;
    double scale; /* of the measure; 0: as it is */
    struct {
        const char *name;
        night_measure measure;
    } series[2];
};

static int put_plot(const struct night *n, const struct plot_of *what, struct buf *out,
                    struct error *e)
{
    struct night_series data[2] = {0};
    struct plot_series series[2];
    struct plot plot = {.title = what->title,
                        .x = {.label = "local time", .time = true},
                        .y = {.label = what->label, .zero = true},
                        .series = series,
                        .width = PLOT_WIDTH,
                        .height = PLOT_HEIGHT};
    bool any = false;
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(data) && what->series[i].measure && rc == 0; i++) {
        rc = night_series(n, what->series[i].measure, &data[i], e);
        for (size_t k = 0; what->scale != 0 && k < data[i].n; k++)
            data[i].y[k] *= what->scale;
        series[i] = (struct plot_series){.name = what->series[i].name,
                                         .mark = PLOT_STEP,
                                         .n = data[i].n,
                                         .x = data[i].x,
                                         .y = data[i].y};
        any = any || data[i].any;
        plot.n_series++;
    }
    if (rc == 0 && any) {
        buf_append_c(out, "<figure>\n");
        rc = plot_svg(out, &plot, e);
        buf_append_c(out, "</figure>\n");
    }
    for (size_t i = 0; i < ARRAY_LEN(data); i++)
        night_series_release(&data[i]);
    return rc;
}

int night_page_time(const struct night *n, struct buf *out, struct error *e)
{
    const bool small = n->course.peak_ledger_bytes < INT64_C(4) << 30;
    const struct plot_of plots[] = {
        {"Tokens written", "tokens/s", 0, {{NULL, night_written_rate}}},
        {"Jobs finished", "jobs", 0, {{NULL, night_done}}},
        {"Prompt tokens read", "tokens/s", 0, {{NULL, night_read_rate}}},
        {"Read from disk for steps", "MiB/s", 0, {{NULL, night_disk_rate}}},
        {"Memory of the worker",
         small ? "MiB" : "GiB",
         small ? 0x1p-20 : 0x1p-30,
         {{"resident", night_resident}, {"of the budget", night_planned}}},
        {"Waiting for memory, whole machine",
         "% of the time",
         0,
         {{"some task waits", night_some}, {"all wait", night_full}}},
    };
    int rc = 0;
    buf_append_c(out, "<h2>Over time</h2>\n");
    put_strip(n, out);
    buf_append_c(out, "<div class=\"plots\">\n");
    for (size_t i = 0; i < ARRAY_LEN(plots) && rc == 0; i++)
        rc = put_plot(n, &plots[i], out, e);
    buf_append_c(out, "</div>\n");
    return rc;
}
