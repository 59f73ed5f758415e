/* A night for people at a terminal: what they want to know first comes first. */
#include <stdio.h>
#include <string.h>

#include "batch/night/parts.h"
#include "batch/view.h"

#define EVENTS_SHOWN 20

/* ---- Pieces ----------------------------------------------------------------------------------- */

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* What documents and errors say is theirs: no control character of it reaches the terminal. */
static void put_safe(struct output *out, const char *text, size_t most)
{
    char line[512];
    const size_t n = MIN_OF(MIN_OF(strlen(text), most), sizeof(line) - 1);
    const size_t whole = str_utf8_whole(str_slice(text, n));
    memcpy(line, text, whole);
    output_harmless(line, whole, false);
    output_put(out, "%.*s%s", (int)whole, line, strlen(text) > whole ? "..." : "");
}

static void head(struct output *out, const char *title)
{
    output_put(out, "\n");
    output_colored(out, OUTPUT_BOLD, title);
    output_put(out, "\n");
}

/* ---- The first lines -------------------------------------------------------------------------- */

static void put_model(const struct night *n, struct output *out)
{
    const struct night_run *r = &n->run[n->n_runs - 1];
    char size[24], memory[24];
    output_put(out, "model     ");
    put_safe(out, night_word(r->model, "name"), 80);
    output_put(out, ", %s", str_format_size((uint64_t)night_number(r->model, "bytes"), size));
    output_put(out, "; on ");
    put_safe(out, night_word(r->machine, "host"), 80);
    output_put(out, ", %.0f cores, %s\n", night_number(r->machine, "cores"),
               str_format_size((uint64_t)night_number(r->machine, "memory_bytes"), memory));
}

static void put_work(const struct night *n, struct output *out)
{
    const struct queue_run_sums *s = &n->sums;
    const struct night_course *c = &n->course;
    char busy[32], held[32], idle[32], count[32];
    output_put(out, "jobs      %s done", night_count(s->done, count));
    if (s->empty)
        output_put(out, " (%s empty)", night_count(s->empty, count));
    output_put(out, ", %s failed", night_count(s->failed, count));
    if (s->retried)
        output_put(out, ", %s put off after a fault", night_count(s->retried, count));
    if (s->released)
        output_put(out, ", %s given back", night_count(s->released, count));
    if (n->n_interrupted)
        output_put(out, ", %s interrupted by a death", night_count(n->n_interrupted, count));
    if (n->n_running)
        output_put(out, ", %s running", night_count(n->n_running, count));
    output_put(out, "\ntime      %s at work, %s held up, %s idle or loading\n",
               night_time_text(c->busy_us, busy), night_time_text(c->held_us, held),
               night_time_text(c->idle_us, idle));
}

static void put_costs(const struct night *n, struct output *out)
{
    const struct queue_run_sums *s = &n->sums;
    const struct night_course *c = &n->course;
    char read[32], written[32], size[24];
    const int64_t wanted = s->expert_hits + s->expert_misses;
    const int64_t total_us = c->busy_us + c->held_us + c->idle_us;
    output_put(out, "tokens    %s read, %s written", night_count(s->prefill_tokens, read),
               night_count(s->decode_tokens, written));
    if (c->busy_us > 0)
        output_put(out, "; %s and %s a second at work",
                   night_rate_text(c->prompt_tokens, c->busy_us, read),
                   night_rate_text(c->decode_tokens, c->busy_us, written));
    output_put(out, "\n");
    if (c->read_bytes > 0)
        output_put(out, "disk      %s read for steps",
                   str_format_size((uint64_t)c->read_bytes, size));
    if (c->read_bytes > 0 && wanted > 0)
        output_put(out, ", %.1f %% of the experts were in memory", percent(s->expert_hits, wanted));
    if (c->read_bytes > 0)
        output_put(out, "\n");
    output_put(out, "memory    %s at most",
               str_format_size((uint64_t)c->peak_resident_bytes, size));
    if (c->pressure_some_us >= 0 && total_us > 0)
        output_put(out, "; some task of the machine waited for memory %.2f %% of the time",
                   percent(c->pressure_some_us, total_us));
    output_put(out, "\n");
}

static void put_left(const struct night *n, struct output *out)
{
    const uint64_t left = view_unfinished(&n->status.counts);
    char work[32], at[32], count[32];
    if (n->expired || n->cancelled)
        output_put(out, "lapsed    %lld expired, %lld were cancelled\n", (long long)n->expired,
                   (long long)n->cancelled);
    output_put(out, "left      %s request%s", night_count((int64_t)left, count),
               left == 1 ? "" : "s");
    if (left && n->work_us >= 0)
        output_put(out, ", about %s of work at this rate", night_time_text(n->work_us, work));
    if (left && n->done_us)
        output_put(out, "; done around %s%s", view_time(n->done_us, at),
                   n->windowed ? ", in its windows" : "");
    else if (left && n->status.paused)
        output_put(out, "; the queue is paused, 'nocturne resume' goes on");
    else if (left && !n->status.worker.alive)
        output_put(out, "; no worker runs");
    output_put(out, "\n");
}

/* ---- Tables ----------------------------------------------------------------------------------- */

static int put_runs(const struct night *n, struct output *out)
{
    static const char *const titles[] = {">RUN",    "BEGAN",    ">LASTED", ">DONE",
                                         ">FAILED", ">WRITTEN", "ENDED",   NULL};
    struct table t;
    head(out, "Runs");
    table_init(&t, out, titles);
    for (size_t i = 0; i < n->n_runs; i++) {
        const struct night_run *r = &n->run[i];
        char at[32], lasted[32], count[32], end[96];
        table_cell(&t, "%lld", (long long)r->run.key);
        table_cell(&t, "%s", view_time(r->run.started_us, at));
        table_cell(&t, "%s", night_time_text(r->until_us - r->from_us, lasted));
        table_cell(&t, "%lld", (long long)r->sums.done);
        table_cell(&t, "%lld", (long long)r->sums.failed);
        table_cell(&t, "%s", night_count(r->sums.decode_tokens, count));
        table_cell(&t, "%s", night_end_text(&r->run, end));
    }
    return table_end(&t, NULL);
}

static void put_causes(const struct night *n, struct output *out)
{
    if (n->n_causes == 0)
        return;
    head(out, "Failures");
    for (size_t i = 0; i < n->n_causes; i++) {
        const struct night_cause *c = &n->cause[i];
        output_put(out, "%5lld  ", (long long)(c->n_final + c->n_returned));
        put_safe(out, c->code, 60);
        if (c->n_returned)
            output_put(out, ", of which %lld came back", (long long)c->n_returned);
        output_put(out, "\n       '");
        put_safe(out, c->custom_id, 60);
        output_put(out, "': ");
        put_safe(out, c->text, 240);
        output_put(out, "\n");
    }
}

static int put_longest(const struct night *n, struct output *out)
{
    static const char *const titles[] = {">TOOK", "CUSTOM_ID", "BATCH",     "STATE",
                                         ">READ", ">WRITTEN",  ">ATTEMPTS", NULL};
    struct table t;
    if (n->n_longest == 0)
        return 0;
    head(out, "Took longest");
    table_init(&t, out, titles);
    for (size_t i = 0; i < n->n_longest; i++) {
        const struct queue_longest *l = &n->longest[i];
        char took[32];
        table_cell(&t, "%s", night_time_text(l->held_us, took));
        table_cell(&t, "%.60s", l->custom_id);
        table_cell(&t, "%.40s", *l->batch_name ? l->batch_name : "-");
        table_cell(&t, "%s", queue_state_name(l->state));
        table_cell(&t, "%lld", (long long)l->prefill_tokens);
        table_cell(&t, "%lld", (long long)l->decode_tokens);
        table_cell(&t, "%lld", (long long)l->attempts);
    }
    return table_end(&t, NULL);
}

static void put_events(const struct night *n, struct output *out)
{
    const size_t left_out = n->n_events > EVENTS_SHOWN ? n->n_events - EVENTS_SHOWN : 0;
    head(out, "Events");
    if (left_out)
        output_put(out, "before these: %zu, in --json and --html\n", left_out);
    for (size_t i = left_out; i < n->n_events; i++) {
        char at[32];
        output_put(out, "%s  ", view_time(n->event[i].at_us, at));
        put_safe(out, n->event[i].text, 300);
        output_put(out, "\n");
    }
}

void night_text(const struct night *n, struct output *out)
{
    char from[32], until[32], lasted[32];
    output_colored(out, OUTPUT_BOLD, n->title);
    output_put(out, "\n%s to %s, %s, %zu run%s\n\n", view_time(n->from_us, from),
               view_time(n->until_us, until), night_time_text(n->until_us - n->from_us, lasted),
               n->n_runs, n->n_runs == 1 ? "" : "s");
    put_model(n, out);
    put_work(n, out);
    put_costs(n, out);
    put_left(n, out);
    put_runs(n, out);
    put_causes(n, out);
    put_longest(n, out);
    put_events(n, out);
}
