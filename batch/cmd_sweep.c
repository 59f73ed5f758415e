/* The same request under one memory budget after the other, each several times. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "batch/command.h"
#include "batch/model_options.h"
#include "batch/stop.h"
#include "batch/sweep/plan.h"
#include "batch/sweep/run.h"
#include "batch/sweep/summary.h"

#define EXIT_SOME_FAILED 1
#define EXIT_REFUSED 4
#define EXIT_SIGINT 130
#define PAGE_MAX_BYTES (4u << 20)

struct sweep {
    const struct options *options;
    struct sweep_plan plan;
    struct sweep_rows rows;
    struct stop stop;
    uint32_t *order; /* [n] */
    size_t n;
    size_t n_left; /* runs that are not there yet */
    int64_t started_us;
    size_t n_ran; /* since then */
};

static bool talks(void)
{
    return log_enabled(LOG_INFO);
}

static uint64_t budget_at(const struct sweep *s, size_t i)
{
    return s->plan.budget[s->order[i] / s->plan.repeat];
}

static uint64_t repetition_at(const struct sweep *s, size_t i)
{
    return s->order[i] % s->plan.repeat + 1;
}

static bool missing(const struct sweep *s, size_t i)
{
    return !sweep_rows_find(&s->rows, budget_at(s, i), repetition_at(s, i));
}

/* ---- Telling ---------------------------------------------------------------------------------- */

static void tell_order(const struct sweep *s)
{
    struct buf text;
    char size[24];
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < s->n; i++) {
        if (missing(s, i))
            buf_printf(&text, "%s%s #%llu", text.len > 0 ? ", " : "",
                       str_format_size(budget_at(s, i), size),
                       (unsigned long long)repetition_at(s, i));
    }
    if (s->rows.n > 0)
        message("%s has %zu of %zu runs", s->rows.path, s->n - s->n_left, s->n);
    message("%u tokens of prompt, %u written; every run counts, none is a warm-up",
            s->plan.prompt_tokens, s->plan.tokens);
    if (text.len > 0)
        message("order (seed %llu): %s", (unsigned long long)s->plan.seed, text.ptr);
    buf_release(&text);
}

static void tell_run(const struct sweep *s, const struct sweep_row *row)
{
    char left[24], time[40] = "", size[24], read[24];
    const double each_s = (double)(clock_mono_us() - s->started_us) / 1e6 / (double)s->n_ran;
    if (s->n_left > 0)
        snprintf(time, sizeof(time), "; about %s left",
                 str_format_duration((int64_t)(each_s * (double)s->n_left), left));
    const char *budget = str_format_size(row->budget_bytes, size);
    if (row->state == SWEEP_DONE)
        message("%zu of %zu, %s #%llu: %.4g tokens/s, prompt %.4g/s, %s read a token%s",
                s->n - s->n_left, s->n, budget, (unsigned long long)row->repetition,
                row->decode_per_s, row->prefill_per_s,
                str_format_size((uint64_t)row->bytes_per_token, read), time);
    else
        message("%zu of %zu, %s #%llu %s: %s%s", s->n - s->n_left, s->n, budget,
                (unsigned long long)row->repetition,
                row->state == SWEEP_REFUSED ? "is refused" : "failed", row->message, time);
}

/* ---- Running ---------------------------------------------------------------------------------- */

static void count_left(struct sweep *s, size_t from)
{
    s->n_left = 0;
    for (size_t i = from; i < s->n; i++)
        s->n_left += missing(s, i);
}

static int run_all(struct sweep *s, struct error *e)
{
    const struct sweep_request q = {.options = s->options,
                                    .model_path = option_text(s->options, OPTION_MODEL),
                                    .prompt = s->plan.prompt.ptr,
                                    .tokens = s->plan.tokens,
                                    .key = s->plan.key};
    int rc = sweep_rows_agree(&s->rows, e);
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        struct sweep_row row;
        if (!missing(s, i))
            continue;
        if (stop_asked(&s->stop))
            return error_set(e, ERROR_INTERRUPTED, "stopped");
        rc = sweep_run(&q, budget_at(s, i), repetition_at(s, i), &s->stop, &row, e);
        if (rc == 0)
            rc = sweep_rows_add(&s->rows, &row, e);
        s->n_ran++;
        count_left(s, i + 1);
        if (rc == 0 && talks())
            tell_run(s, &row);
        if (rc == 0)
            rc = sweep_rows_agree(&s->rows, e);
    }
    return rc;
}

/* What one writes would be the end of what another has. */
static int check_files(const struct options *o, struct error *e)
{
    static const enum option_id files[] = {OPTION_RUNS_FILE, OPTION_SVG, OPTION_HTML};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        const char *one = option_text(o, files[i]);
        for (size_t k = i + 1; one && k < ARRAY_LEN(files); k++) {
            const char *other = option_text(o, files[k]);
            if (other && strcmp(one, other) == 0)
                return error_set(e, ERROR_USAGE, "-o, --svg and --html: %s twice", one);
        }
    }
    return 0;
}

static int prepare(struct sweep *s, struct error *e)
{
    int rc = check_files(s->options, e);
    if (rc == 0)
        rc = sweep_plan_make(&s->plan, s->options, e);
    if (rc == 0)
        rc = sweep_rows_open(&s->rows, option_text(s->options, OPTION_RUNS_FILE), s->plan.key, e);
    if (rc)
        return rc;
    s->order = sweep_order(&s->plan, &s->n);
    if (!s->order)
        return error_set(e, ERROR_NOMEM, "out of memory for the order of runs");
    count_left(s, 0);
    s->started_us = clock_mono_us();
    if (talks())
        tell_order(s);
    return 0;
}

/* ---- What comes out --------------------------------------------------------------------------- */

static int write_file(const struct sweep_summary *sum, const char *path, bool page, struct error *e)
{
    struct buf text;
    buf_init(&text, PAGE_MAX_BYTES);
    int rc = page ? sweep_summary_html(&text, sum, e) : sweep_summary_svg(&text, sum, true, e);
    if (rc == 0)
        rc = file_write_all(path, text.ptr, text.len, e);
    buf_release(&text);
    return rc;
}

static int print(const struct sweep *s, struct output *out, struct error *e)
{
    struct sweep_summary sum;
    const char *svg = option_text(s->options, OPTION_SVG);
    const char *html = option_text(s->options, OPTION_HTML);
    sweep_summary_make(&sum, &s->plan, &s->rows);
    /* First: a file that cannot be written must not cost the figures of hours. */
    int rc = option_on(s->options, OPTION_JSON) ? sweep_summary_json(out, &sum, e)
                                                : sweep_summary_text(out, &sum, e);
    if (rc == 0 && svg)
        rc = write_file(&sum, svg, false, e);
    if (rc == 0 && html)
        rc = write_file(&sum, html, true, e);
    return rc;
}

static int status_of(const struct sweep *s)
{
    size_t n_done = 0, n_refused = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct sweep_row *row =
            sweep_rows_find(&s->rows, budget_at(s, i), repetition_at(s, i));
        n_done += row && row->state == SWEEP_DONE;
        n_refused += row && row->state == SWEEP_REFUSED;
    }
    if (n_refused == s->n)
        return EXIT_REFUSED;
    return n_done + n_refused < s->n ? EXIT_SOME_FAILED : 0;
}

static int finish(struct sweep *s, struct output *out, int rc, struct error *e)
{
    const bool stopped = rc == -ERROR_INTERRUPTED;
    if (rc < 0 && !stopped)
        return rc;
    if (stopped)
        message("stopped; %s", s->rows.path
                                   ? "the same command goes on from here"
                                   : "with -o FILE the same command would go on from here");
    rc = print(s, out, e);
    if (rc < 0)
        return rc;
    if (!stopped)
        return status_of(s);
    return stop_signal(&s->stop) == SIGINT ? EXIT_SIGINT : 128 + stop_signal(&s->stop);
}

static int run(struct command_context *c, struct error *e)
{
    struct sweep s = {.options = c->options};
    int rc = model_path_check(option_text(c->options, OPTION_MODEL), e);
    if (rc == 0)
        rc = stop_open(&s.stop, e);
    if (rc)
        return rc;
    rc = prepare(&s, e);
    if (rc == 0)
        rc = finish(&s, c->out, run_all(&s, e), e);
    mem_free(s.order);
    sweep_rows_close(&s.rows);
    sweep_plan_release(&s.plan);
    stop_close(&s.stop);
    return rc;
}

static const enum option_id options[] = {OPTION_MODEL,
                                         OPTION_BUDGETS,
                                         OPTION_REPEAT,
                                         OPTION_SWEEP_TOKENS,
                                         OPTION_PROMPT_TOKENS,
                                         OPTION_SWEEP_PROMPT,
                                         OPTION_ORDER_SEED,
                                         OPTION_RUNS_FILE,
                                         OPTION_JSON,
                                         OPTION_SVG,
                                         OPTION_HTML,
                                         OPTION_THREADS,
                                         OPTION_CTX,
                                         OPTION_SLOTS,
                                         OPTION_CHUNK,
                                         OPTION_ISA,
                                         OPTION_IO,
                                         OPTION_EXPERT_POLICY,
                                         OPTION_LOOKAHEAD,
                                         OPTION_EXACT,
                                         OPTION_NONE};

const struct command command_sweep = {
    .name = "sweep",
    .arguments = "",
    .option = options,
    .computes = false,
    .details =
        "Runs one request with each budget, --repeat times, in random order: every run is "
        "'nocturne\n"
        "run' in a process of its own, which loads the model, reads the prompt, writes --tokens "
        "and\n"
        "ends. Prints means with 95 % confidence intervals: tokens a second, bytes read a token,\n"
        "experts found in memory, load time, memory taken, memory pressure, major faults. A "
        "budget\n"
        "that is refused is a row that says why.\n\n"
        "All runs must write the same tokens; if not, it names two that differ and ends with 65.\n"
        "With -o every run is kept as it comes: the same command goes on where it was stopped, "
        "and\n"
        "may ask for more budgets or repetitions.\n\n"
        "Exit status: 0 all ran or were refused, 1 some failed, 4 every budget was refused or the\n"
        "file is of another sweep, 65 the tokens differ or the file is damaged, 130 stopped.",
    .examples = "nocturne sweep -m model.gguf --budgets 60G,68G,92G --repeat 3 -o sweep.csv\n"
                "nocturne sweep -m model.gguf --slots 1 --html sweep.html",
    .run = run,
};
