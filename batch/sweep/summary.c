#include "batch/sweep/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "batch/markup.h"
#include "batch/plot.h"
#include "batch/view.h"

#define GIB ((double)(UINT64_C(1) << 30))
#define PLOT_WIDTH 720
#define PLOT_HEIGHT 340
/* A point has no more values than repetitions. */
#define VALUES_MAX SWEEP_REPEAT_MAX

static const struct metric {
    const char *name;
    size_t offset;
} metrics[SWEEP_METRICS] = {
    [SWEEP_DECODE] = {"decode_tokens_per_second", offsetof(struct sweep_row, decode_per_s)},
    [SWEEP_PREFILL] = {"prefill_tokens_per_second", offsetof(struct sweep_row, prefill_per_s)},
    [SWEEP_BYTES] = {"bytes_per_token", offsetof(struct sweep_row, bytes_per_token)},
    [SWEEP_HITS] = {"hit_rate", offsetof(struct sweep_row, hit_rate)},
    [SWEEP_LOAD] = {"load_s", offsetof(struct sweep_row, load_s)},
    [SWEEP_RSS] = {"peak_rss_bytes", offsetof(struct sweep_row, peak_rss_bytes)},
    [SWEEP_PLAN] = {"peak_plan_bytes", offsetof(struct sweep_row, plan_bytes)},
    [SWEEP_SOME] = {"pressure_some", offsetof(struct sweep_row, some)},
    [SWEEP_FULL] = {"pressure_full", offsetof(struct sweep_row, full)},
    [SWEEP_FAULTS] = {"major_faults", offsetof(struct sweep_row, major_faults)},
};

static double value_of(const struct sweep_row *row, enum sweep_metric m)
{
    double v;
    memcpy(&v, (const char *)row + metrics[m].offset, sizeof(v));
    return v;
}

/* ---- Means ------------------------------------------------------------------------------------ */

static void make_point(struct sweep_point *point, const struct sweep_plan *p,
                       const struct sweep_rows *r)
{
    const struct sweep_row *done[VALUES_MAX];
    double value[VALUES_MAX];
    size_t n = 0;
    for (uint64_t k = 1; k <= p->repeat && n < VALUES_MAX; k++) {
        const struct sweep_row *row = sweep_rows_find(r, point->budget_bytes, k);
        if (row && row->state == SWEEP_DONE)
            done[n++] = row;
    }
    point->n_runs = n;
    for (enum sweep_metric m = 0; m < SWEEP_METRICS; m++) {
        for (size_t i = 0; i < n; i++)
            value[i] = value_of(done[i], m);
        point->of[m] = statistics_of(value, n);
    }
    for (size_t i = 0; i < r->n && point->n_runs == 0; i++) {
        if (r->row[i]->budget_bytes != point->budget_bytes || r->row[i]->state == SWEEP_DONE)
            continue;
        point->message = r->row[i]->message;
        point->refused = r->row[i]->state == SWEEP_REFUSED;
    }
}

void sweep_summary_make(struct sweep_summary *s, const struct sweep_plan *p,
                        const struct sweep_rows *r)
{
    *s = (struct sweep_summary){.plan = p, .rows = r, .n = p->n_budgets};
    for (size_t i = 0; i < s->n; i++) {
        s->point[i].budget_bytes = p->budget[i];
        make_point(&s->point[i], p, r);
    }
}

/* ---- For people ------------------------------------------------------------------------------- */

static const char *const titles[] = {">BUDGET",     ">RUNS", ">TOKENS/S", ">PROMPT/S",
                                     ">READ/TOKEN", ">HITS", ">LOAD",     ">RSS",
                                     ">SOME",       ">FULL", ">FAULTS",   NULL};
enum cell_kind { CELL_BUDGET, CELL_RUNS, CELL_RATE, CELL_SIZE, CELL_PART, CELL_TIME, CELL_COUNT };
static const struct cell {
    enum cell_kind kind;
    enum sweep_metric metric;
} cells[] = {{CELL_BUDGET, 0},          {CELL_RUNS, 0},
             {CELL_RATE, SWEEP_DECODE}, {CELL_RATE, SWEEP_PREFILL},
             {CELL_SIZE, SWEEP_BYTES},  {CELL_PART, SWEEP_HITS},
             {CELL_TIME, SWEEP_LOAD},   {CELL_SIZE, SWEEP_RSS},
             {CELL_PART, SWEEP_SOME},   {CELL_PART, SWEEP_FULL},
             {CELL_COUNT, SWEEP_FAULTS}};

#define CELL_BYTES 64

/* "1.234 +- 0.056": as many digits behind the point as the mean needs for four. */
static void put_rate(char out[CELL_BYTES], const struct statistics *v)
{
    const int places = v->mean >= 1000 ? 0 : v->mean >= 100 ? 1 : v->mean >= 10 ? 2 : 3;
    if (isnan(v->ci95))
        snprintf(out, CELL_BYTES, "%.*f", places, v->mean);
    else
        snprintf(out, CELL_BYTES, "%.*f \xc2\xb1 %.*f", places, v->mean, places, v->ci95);
}

static const char *cell_text(const struct sweep_point *p, const struct cell *c,
                             char out[CELL_BYTES])
{
    const struct statistics *v = &p->of[c->metric];
    char size[24];
    snprintf(out, CELL_BYTES, "-");
    if (c->kind == CELL_BUDGET)
        snprintf(out, CELL_BYTES, "%s", str_format_size(p->budget_bytes, size));
    else if (c->kind == CELL_RUNS)
        snprintf(out, CELL_BYTES, "%zu", p->n_runs);
    else if (v->n == 0)
        return out;
    else if (c->kind == CELL_RATE)
        put_rate(out, v);
    else if (c->kind == CELL_SIZE)
        snprintf(out, CELL_BYTES, "%s", str_format_size((uint64_t)v->mean, size));
    else if (c->kind == CELL_PART)
        snprintf(out, CELL_BYTES, "%.1f %%", 100 * v->mean);
    else if (c->kind == CELL_TIME)
        snprintf(out, CELL_BYTES, "%.1f s", v->mean);
    else
        snprintf(out, CELL_BYTES, "%.0f", v->mean);
    return out;
}

int sweep_summary_text(struct output *out, const struct sweep_summary *s, struct error *e)
{
    struct table t;
    char text[CELL_BYTES], size[24];
    table_init(&t, out, titles);
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < ARRAY_LEN(cells); k++)
            table_cell(&t, "%s", cell_text(&s->point[i], &cells[k], text));
    }
    int rc = table_end(&t, e);
    for (size_t i = 0; i < s->n; i++) {
        const struct sweep_point *p = &s->point[i];
        if (p->message)
            output_put(out, "%s %s: %s\n", str_format_size(p->budget_bytes, size),
                       p->refused ? "was refused" : "failed", p->message);
    }
    return rc;
}

/* ---- For programs ----------------------------------------------------------------------------- */

static void add_number(cJSON *o, const char *name, double v)
{
    if (isfinite(v))
        cJSON_AddNumberToObject(o, name, v);
    else
        cJSON_AddNullToObject(o, name);
}

static const char *state_text(const struct sweep_point *p)
{
    return p->n_runs > 0 ? "done" : !p->message ? "missing" : p->refused ? "refused" : "failed";
}

static cJSON *point_json(const struct sweep_point *p)
{
    cJSON *o = cJSON_CreateObject();
    add_number(o, "budget_bytes", (double)p->budget_bytes);
    cJSON_AddStringToObject(o, "state", state_text(p));
    add_number(o, "runs", (double)p->n_runs);
    if (p->message)
        cJSON_AddStringToObject(o, "message", p->message);
    for (enum sweep_metric m = 0; m < SWEEP_METRICS; m++) {
        cJSON *v = cJSON_AddObjectToObject(o, metrics[m].name);
        add_number(v, "mean", p->of[m].mean);
        add_number(v, "deviation", p->of[m].deviation);
        add_number(v, "ci95", p->of[m].ci95);
    }
    return o;
}

static cJSON *run_json(const struct sweep_row *row)
{
    cJSON *o = cJSON_CreateObject();
    add_number(o, "budget_bytes", (double)row->budget_bytes);
    add_number(o, "repetition", (double)row->repetition);
    for (enum sweep_metric m = 0; m < SWEEP_METRICS; m++)
        add_number(o, metrics[m].name, value_of(row, m));
    add_number(o, "prompt_tokens", row->prompt_tokens);
    add_number(o, "tokens", row->tokens);
    cJSON_AddStringToObject(o, "tokens_sha256", row->digest);
    cJSON_AddStringToObject(o, "at", row->at);
    return o;
}

int sweep_summary_json(struct output *out, const struct sweep_summary *s, struct error *e)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", s->plan->model);
    cJSON_AddStringToObject(o, "fingerprint", s->plan->fingerprint);
    cJSON_AddStringToObject(o, "sweep", s->plan->key);
    add_number(o, "prompt_tokens", s->plan->prompt_tokens);
    add_number(o, "tokens", s->plan->tokens);
    add_number(o, "repeat", s->plan->repeat);
    add_number(o, "seed", (double)s->plan->seed);
    cJSON *points = cJSON_AddArrayToObject(o, "budgets");
    for (size_t i = 0; i < s->n; i++)
        cJSON_AddItemToArray(points, point_json(&s->point[i]));
    cJSON *runs = cJSON_AddArrayToObject(o, "runs");
    for (size_t i = 0; i < s->rows->n; i++) {
        if (s->rows->row[i]->state == SWEEP_DONE)
            cJSON_AddItemToArray(runs, run_json(s->rows->row[i]));
    }
    return output_json(out, o, true, e);
}

/* ---- As pictures ------------------------------------------------------------------------------ */

/* One metric over the budgets, divided by `unit`. */
static int put_plot(struct buf *out, const struct sweep_summary *s, enum sweep_metric m,
                    const char *title, const char *label, double unit, struct error *e)
{
    double x[SWEEP_BUDGETS_MAX], y[SWEEP_BUDGETS_MAX], bar[SWEEP_BUDGETS_MAX];
    const double largest = s->n > 0 ? (double)s->point[s->n - 1].budget_bytes : 0;
    const bool small = largest < GIB; /* in MiB then */
    for (size_t i = 0; i < s->n; i++) {
        x[i] = (double)s->point[i].budget_bytes / (small ? GIB / 1024 : GIB);
        y[i] = s->point[i].of[m].mean / unit;
        bar[i] = s->point[i].of[m].ci95 / unit;
    }
    const struct plot_series series = {
        .mark = PLOT_LINE_POINTS, .n = s->n, .x = x, .y = y, .error = bar};
    const struct plot plot = {.title = title,
                              .x = {.label = small ? "memory budget, MiB" : "memory budget, GiB"},
                              .y = {.label = label, .zero = true},
                              .series = &series,
                              .n_series = 1,
                              .width = PLOT_WIDTH,
                              .height = PLOT_HEIGHT};
    return plot_svg(out, &plot, e);
}

static int put_plots(struct buf *out, const struct sweep_summary *s, const char *between,
                     struct error *e)
{
    int rc = put_plot(out, s, SWEEP_DECODE, "Decode over the memory budget", "tokens/s", 1, e);
    buf_append_c(out, between);
    if (rc == 0)
        rc = put_plot(out, s, SWEEP_BYTES, "Read from disk for each token", "MiB a token",
                      GIB / 1024, e);
    return rc;
}

int sweep_summary_svg(struct buf *out, const struct sweep_summary *s, bool alone, struct error *e)
{
    char between[64];
    if (!alone)
        return put_plots(out, s, "", e);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\">\n<style>\n%s</style>\n",
               PLOT_WIDTH, 2 * PLOT_HEIGHT, PLOT_WIDTH, 2 * PLOT_HEIGHT, plot_style());
    snprintf(between, sizeof(between), "<g transform=\"translate(0 %d)\">\n", PLOT_HEIGHT);
    int rc = put_plots(out, s, between, e);
    buf_append_c(out, "</g>\n</svg>\n");
    return rc ? rc : buf_check(out, "the plots", e);
}

/* ---- As a page -------------------------------------------------------------------------------- */

static const char page_style[] =
    "body{font:15px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif;max-width:60em;"
    "margin:2em auto;padding:0 1em;color:#24292f;background:#fff}\n"
    "table{display:block;overflow-x:auto;white-space:nowrap;border-collapse:collapse;"
    "font-size:13px;font-variant-numeric:tabular-nums;margin:1em 0}\n"
    "th,td{padding:.25em .5em;text-align:right;border-bottom:1px solid #8b949e55}\n"
    "p.note{color:#57606a}\n"
    "@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}"
    "p.note{color:#8b949e}}\n"
    "@media print{body{color:#000;background:#fff;max-width:none;margin:0}}\n";

static void put_cell(struct buf *out, const char *tag, const char *text)
{
    buf_printf(out, "<%s>", tag);
    markup_text(out, str_of(text));
    buf_printf(out, "</%s>", tag);
}

static void put_table(struct buf *out, const struct sweep_summary *s)
{
    char text[CELL_BYTES];
    buf_append_c(out, "<table>\n<tr>");
    for (size_t k = 0; titles[k]; k++)
        put_cell(out, "th", titles[k] + 1);
    buf_append_c(out, "</tr>\n");
    for (size_t i = 0; i < s->n; i++) {
        buf_append_c(out, "<tr>");
        for (size_t k = 0; k < ARRAY_LEN(cells); k++)
            put_cell(out, "td", cell_text(&s->point[i], &cells[k], text));
        buf_append_c(out, "</tr>\n");
    }
    buf_append_c(out, "</table>\n");
    for (size_t i = 0; i < s->n; i++) {
        const struct sweep_point *p = &s->point[i];
        if (!p->message)
            continue;
        buf_printf(out, "<p class=\"note\">%s %s: ", str_format_size(p->budget_bytes, text),
                   p->refused ? "was refused" : "failed");
        markup_text(out, str_of(p->message));
        buf_append_c(out, "</p>\n");
    }
}

int sweep_summary_html(struct buf *out, const struct sweep_summary *s, struct error *e)
{
    const struct sweep_plan *p = s->plan;
    buf_printf(
        out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Sweep of budgets: ");
    markup_text(out, str_of(p->model));
    buf_printf(out, "</title>\n<style>\n%s%s</style></head>\n<body>\n<h1>Sweep of budgets</h1>\n",
               page_style, plot_style());
    buf_append_c(out, "<p>");
    markup_text(out, str_of(p->model));
    buf_printf(out,
               ", fingerprint %.12s; %u tokens of prompt, %u written, each budget %u times.</p>\n",
               p->fingerprint, p->prompt_tokens, p->tokens, p->repeat);
    put_table(out, s);
    buf_append_c(out,
                 "<p class=\"note\">Means; \xc2\xb1 and bars are 95 % confidence intervals by "
                 "Student's t. Decode is from the first token on; load and prompt are apart. Some "
                 "and full: share of the time under memory pressure.</p>\n");
    int rc = put_plots(out, s, "", e);
    buf_append_c(out, "</body>\n</html>\n");
    return rc ? rc : buf_check(out, "the page", e);
}
