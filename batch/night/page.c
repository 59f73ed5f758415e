/*
 * A night as a page: one file that needs nothing beside itself, for a browser and for paper.
 *
 * It is well-formed XML, too. Names of jobs and messages of errors are what documents made of them, so all
 * text goes through markup_text().
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "batch/markup.h"
#include "batch/night/parts.h"
#include "batch/plot.h"
#include "batch/version.h"
#include "batch/view.h"

#define EVENTS_SHOWN 300

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--paper:#fff;"
    "--tile:#f6f8fa;--good:#1a7f37;--bad:#cf222e;--wait:#bc4c00}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;"
    "--paper:#0d1117;--tile:#151b23;--good:#3fb950;--bad:#f85149;--wait:#f0883e}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:28px 24px 48px;max-width:1180px;background:var(--paper);"
    "color:var(--ink);font:15px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif}\n"
    "h1{font-size:26px;line-height:1.2;margin:0 0 4px}\n"
    "h2{font-size:18px;margin:36px 0 10px}\n"
    "p{margin:0 0 8px}.soft{color:var(--soft)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(230px,1fr));gap:12px;"
    "margin:22px 0 18px}\n"
    ".tile{background:var(--tile);border:1px solid var(--line);border-radius:8px;"
    "padding:10px 14px}\n"
    ".tile b{display:block;font-size:22px;line-height:1.25;font-variant-numeric:tabular-nums}\n"
    ".tile span{display:block;color:var(--soft);font-size:13px;line-height:1.35}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}\n"
    ".strip{display:block;width:100%;height:22px;background:var(--tile);"
    "border:1px solid var(--line);border-radius:4px}\n"
    ".work{fill:var(--good)}.held{fill:var(--wait)}.idle{fill:var(--soft);fill-opacity:.45}\n"
    ".key{display:flex;flex-wrap:wrap;gap:2px 20px;color:var(--soft);font-size:13px;"
    "margin:6px 0 0}\n"
    ".key svg{width:11px;height:11px;margin-right:6px}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));"
    "gap:18px 24px}\n"
    "figure{margin:0;min-width:0}figure svg{display:block;width:100%}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}\n"
    "th{text-align:left;font-weight:600;color:var(--soft);font-size:13px}\n"
    "th,td{padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "th:last-child,td:last-child{padding-right:0}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;width:1%}\n"
    ".t,.w{white-space:nowrap;font-variant-numeric:tabular-nums;width:1%}\n"
    ".any{overflow-wrap:anywhere}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:3px 18px;margin:0;font-size:14px}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    "footer{margin-top:40px;color:var(--soft);font-size:13px}\n"
    "@page{size:A4;margin:15mm}\n"
    "@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--paper:#fff;--tile:#fff;"
    "--good:#116329;--bad:#a40e26;--wait:#953800}\n"
    "body{padding:0;max-width:none;font-size:10pt}h1{font-size:18pt}\n"
    "h2{font-size:13pt;margin:18pt 0 6pt;break-after:avoid}\n"
    ".tiles{grid-template-columns:repeat(4,1fr);gap:6pt}.tile{padding:5pt 8pt}\n"
    ".tile b{font-size:14pt}.tile span,.key,th,footer{font-size:8.5pt}\n"
    ".plots{grid-template-columns:1fr 1fr;gap:10pt}table,dl{font-size:9pt}\n"
    ".work,.held,.idle{print-color-adjust:exact}\n"
    "tr,figure,.tile{break-inside:avoid}thead{display:table-header-group}}\n";

/* ---- Pieces ----------------------------------------------------------------------------------- */

static void put(struct buf *out, const char *text)
{
    markup_text(out, str_of(text));
}

/* class: of the cell; "" for none. */
ATTR_PRINTF(3, 4) static void cell(struct buf *out, const char *class, const char *fmt, ...)
{
    char text[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_printf(out, "<td class=\"%s\">", class);
    markup_text(out, str_slice(text, str_utf8_whole(str_of(text))));
    buf_append_c(out, "</td>");
}

ATTR_PRINTF(5, 6)
static void tile(struct buf *out, const char *class, const char *value, const char *what,
                 const char *fmt, ...)
{
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_printf(out, "<div class=\"tile\"><span>");
    put(out, what);
    buf_printf(out, "</span><b class=\"%s\">", class);
    put(out, value);
    buf_append_c(out, "</b><span>");
    put(out, text);
    buf_append_c(out, "</span></div>\n");
}

/* Titles that begin with '>' are of columns of numbers. */
static void table_begin(struct buf *out, const char *title, const char *const *columns)
{
    buf_append_c(out, "<h2>");
    put(out, title);
    buf_append_c(out, "</h2>\n<div class=\"wide\"><table><thead><tr>");
    for (; *columns; columns++) {
        buf_printf(out, "<th class=\"%s\">", **columns == '>' ? "n" : "");
        put(out, *columns + (**columns == '>'));
        buf_append_c(out, "</th>");
    }
    buf_append_c(out, "</tr></thead><tbody>\n");
}

static void table_close(struct buf *out)
{
    buf_append_c(out, "</tbody></table></div>\n");
}

/* ---- The figures ------------------------------------------------------------------------------ */

static void put_left_tile(const struct night *n, struct buf *out)
{
    const uint64_t left = view_unfinished(&n->status.counts);
    char count[32], work[32], at[32], more[160] = "";
    if (left > 0 && n->work_us >= 0)
        snprintf(more, sizeof(more), "about %s of work", night_time_text(n->work_us, work));
    const size_t used = strlen(more);
    if (left > 0 && n->done_us)
        snprintf(more + used, sizeof(more) - used, ", done around %.16s%s",
                 view_time(n->done_us, at), n->windowed ? " in its windows" : "");
    else if (left > 0)
        snprintf(more + used, sizeof(more) - used, "%s%s", used ? "; " : "",
                 n->status.paused         ? "the queue is paused"
                 : n->status.worker.alive ? ""
                                          : "no worker runs now");
    tile(out, "", night_count((int64_t)left, count), "left in the queue", "%s",
         left ? more : "the queue is empty");
}

static void put_tiles(const struct night *n, struct buf *out)
{
    const struct queue_run_sums *s = &n->sums;
    const struct night_course *c = &n->course;
    const int64_t all_us = c->busy_us + c->held_us + c->idle_us;
    const int64_t wanted = s->expert_hits + s->expert_misses;
    char count[32], more[32], size[24], busy[32], held[32];
    buf_append_c(out, "<div class=\"tiles\">\n");
    tile(out, s->done ? "good" : "", night_count(s->done, count), "jobs done", "%s came out empty",
         night_count(s->empty, more));
    tile(out, s->failed ? "bad" : "", night_count(s->failed, count), "jobs failed",
         "%lld put off, %lld interrupted", (long long)(s->retried + s->released),
         (long long)n->n_interrupted);
    tile(out, "", night_count(s->decode_tokens, count), "tokens written", "%s a second at work",
         night_rate_text(c->decode_tokens, c->busy_us, more));
    tile(out, "", night_count(s->prefill_tokens, count), "prompt tokens read",
         "%s a second at work", night_rate_text(c->prompt_tokens, c->busy_us, more));
    tile(out, "", night_time_text(c->busy_us, busy), "at work", "%s held up",
         night_time_text(c->held_us, held));
    if (wanted > 0)
        snprintf(more, sizeof(more), "%.1f %%", 100.0 * (double)s->expert_hits / (double)wanted);
    if (c->read_bytes > 0)
        tile(out, "", str_format_size((uint64_t)c->read_bytes, size), "read from disk for steps",
             "%s%s", wanted > 0 ? more : "layers that do not fit",
             wanted > 0 ? " of experts were in memory" : "");
    snprintf(more, sizeof(more), "%.2f %%",
             c->pressure_some_us >= 0 && all_us > 0
                 ? 100.0 * (double)c->pressure_some_us / (double)all_us
                 : 0.0);
    tile(out, "", c->pressure_some_us >= 0 && all_us > 0 ? more : "unknown", "memory pressure",
         "the worker took %s at most", str_format_size((uint64_t)c->peak_resident_bytes, size));
    put_left_tile(n, out);
    buf_append_c(out, "</div>\n");
}

/* ---- Tables ----------------------------------------------------------------------------------- */

static void put_runs(const struct night *n, struct buf *out)
{
    static const char *const columns[] = {">Run",    "Began",           ">Lasted", ">Done",
                                          ">Failed", ">Tokens written", "Ended",   NULL};
    table_begin(out, "Runs", columns);
    for (size_t i = 0; i < n->n_runs; i++) {
        const struct night_run *r = &n->run[i];
        char at[32], lasted[32], count[32], end[96];
        buf_append_c(out, "<tr>");
        cell(out, "n", "%lld", (long long)r->run.key);
        cell(out, "t", "%s", view_time(r->run.started_us, at));
        cell(out, "n", "%s", night_time_text(r->until_us - r->from_us, lasted));
        cell(out, "n", "%s", night_count(r->sums.done, count));
        cell(out, r->sums.failed ? "n bad" : "n", "%s", night_count(r->sums.failed, count));
        cell(out, "n", "%s", night_count(r->sums.decode_tokens, count));
        cell(out, "any", "%s%s%s", night_end_text(&r->run, end), r->run.error ? ": " : "",
             r->run.error ? r->run.error : "");
        buf_append_c(out, "</tr>\n");
    }
    table_close(out);
}

static void put_causes(const struct night *n, struct buf *out)
{
    static const char *const columns[] = {">Jobs", "Cause", "For example", "What was said", NULL};
    if (n->n_causes == 0)
        return;
    table_begin(out, "Failures by cause", columns);
    for (size_t i = 0; i < n->n_causes; i++) {
        const struct night_cause *c = &n->cause[i];
        buf_append_c(out, "<tr>");
        cell(out, "n", "%lld", (long long)(c->n_final + c->n_returned));
        cell(out, "w", "%s%s", c->code, c->n_final ? "" : ", came back");
        cell(out, "any", "%.200s", c->custom_id);
        cell(out, "any", "%.600s", c->text);
        buf_append_c(out, "</tr>\n");
    }
    table_close(out);
}

static void put_longest(const struct night *n, struct buf *out)
{
    static const char *const columns[] = {">Took",        "Request",         "Batch",     "State",
                                          ">Tokens read", ">Tokens written", ">Attempts", NULL};
    if (n->n_longest == 0)
        return;
    table_begin(out, "Took longest", columns);
    for (size_t i = 0; i < n->n_longest; i++) {
        const struct queue_longest *l = &n->longest[i];
        char took[32], count[32];
        buf_append_c(out, "<tr>");
        cell(out, "n", "%s", night_time_text(l->held_us, took));
        cell(out, "any", "%.200s", l->custom_id);
        cell(out, "any", "%.100s", l->batch_name);
        cell(out, "w", "%s", queue_state_name(l->state));
        cell(out, "n", "%s", night_count(l->prefill_tokens, count));
        cell(out, "n", "%s", night_count(l->decode_tokens, count));
        cell(out, "n", "%lld", (long long)l->attempts);
        buf_append_c(out, "</tr>\n");
    }
    table_close(out);
}

static void put_events(const struct night *n, struct buf *out)
{
    static const char *const columns[] = {"Time", "What", NULL};
    const size_t left_out = n->n_events > EVENTS_SHOWN ? n->n_events - EVENTS_SHOWN : 0;
    table_begin(out, "Events", columns);
    if (left_out)
        buf_printf(out, "<tr><td></td><td class=\"soft\">before these: %zu, left out</td></tr>\n",
                   left_out);
    for (size_t i = left_out; i < n->n_events; i++) {
        char at[32];
        buf_append_c(out, "<tr>");
        cell(out, "t", "%s", view_time(n->event[i].at_us, at));
        cell(out, "any", "%.600s", n->event[i].text);
        buf_append_c(out, "</tr>\n");
    }
    table_close(out);
}

/* ---- What ran ---------------------------------------------------------------------------------- */

ATTR_PRINTF(3, 4) static void fact(struct buf *out, const char *name, const char *fmt, ...)
{
    char text[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_append_c(out, "<dt>");
    put(out, name);
    buf_append_c(out, "</dt><dd>");
    markup_text(out, str_slice(text, str_utf8_whole(str_of(text))));
    buf_append_c(out, "</dd>\n");
}

/* All in one line: most are as they always are. */
static void put_settings(const cJSON *configuration, struct buf *out)
{
    const cJSON *one;
    const char *between = "";
    buf_append_c(out, "<dt>settings</dt><dd>");
    cJSON_ArrayForEach(one, configuration)
    {
        const bool empty = cJSON_IsArray(one) ? cJSON_GetArraySize(one) == 0
                                              : cJSON_IsString(one) && !*one->valuestring;
        if (empty || cJSON_IsFalse(one))
            continue;
        char *text = cJSON_PrintUnformatted(one);
        buf_append_c(out, between);
        put(out, one->string);
        buf_append_c(out, cJSON_IsTrue(one) ? "" : " ");
        put(out, cJSON_IsString(one) ? one->valuestring : cJSON_IsTrue(one) || !text ? "" : text);
        between = ", ";
        cJSON_free(text);
    }
    buf_append_c(out, "</dd>\n");
}

static void put_facts(const struct night *n, struct buf *out)
{
    const struct night_run *r = &n->run[n->n_runs - 1];
    char size[24], budget[24];
    buf_append_c(out, "<h2>What ran</h2>\n<dl>\n");
    fact(out, "model", "%s", night_word(r->model, "name"));
    fact(out, "file", "%s, %s", night_word(r->model, "path"),
         str_format_size((uint64_t)night_number(r->model, "bytes"), size));
    fact(out, "fingerprint", "%s", night_word(r->model, "fingerprint"));
    fact(out, "plan", "%s of %s; %.0f slots of %.0f tokens",
         str_format_size((uint64_t)night_number(r->plan, "total_bytes"), size),
         str_format_size((uint64_t)night_number(r->plan, "limit_bytes"), budget),
         night_number(r->plan, "slots"), night_number(r->plan, "ctx"));
    fact(out, "machine", "%s: %s, %.0f cores, %s; %s", night_word(r->machine, "host"),
         night_word(r->machine, "cpu"), night_number(r->machine, "cores"),
         str_format_size((uint64_t)night_number(r->machine, "memory_bytes"), size),
         night_word(r->machine, "kernel"));
    put_settings(r->configuration, out);
    buf_append_c(out, "</dl>\n");
}

int night_page(const struct night *n, struct buf *out, struct error *e)
{
    char from[32], until[32], lasted[32];
    buf_append_c(out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n"
                      "<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
                      "content=\"width=device-width, initial-scale=1\"/>\n<title>");
    put(out, n->title);
    buf_printf(out, " - nocturne</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<h1>", style,
               plot_style());
    put(out, n->title);
    buf_printf(out, "</h1>\n<p class=\"soft\">%s to %s, %s; %zu run%s</p>\n",
               view_time(n->from_us, from), view_time(n->until_us, until),
               night_time_text(n->until_us - n->from_us, lasted), n->n_runs,
               n->n_runs == 1 ? "" : "s");
    put_tiles(n, out);
    int rc = night_page_time(n, out, e);
    put_runs(n, out);
    put_causes(n, out);
    put_longest(n, out);
    put_events(n, out);
    put_facts(n, out);
    buf_append_c(out, "<footer>nocturne " NOCTURNE_VERSION "</footer>\n</body>\n</html>\n");
    return rc ? rc : buf_check(out, "a page", e);
}
