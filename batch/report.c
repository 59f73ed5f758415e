#include "batch/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "batch/output.h"
#include "batch/view.h"

#define SECOND_US INT64_C(1000000)
/* How much the newest interval counts in the rate that is shown. */
#define RATE_WEIGHT 0.3

void report_init(struct report *r, int64_t every_us)
{
    memset(r, 0, sizeof(*r));
    r->terminal = isatty(STDERR_FILENO) == 1;
    r->every_us = r->terminal ? SECOND_US : every_us;
    r->started_us = r->shown_us = clock_mono_us();
    r->next_us = r->started_us + r->every_us;
}

static void put(const char *text)
{
    (void)file_write_fd(STDERR_FILENO, text, strlen(text), "standard error", NULL);
}

static void wipe(struct report *r)
{
    if (r->line_open)
        put("\r\033[K");
    r->line_open = false;
}

void report_say(struct report *r, enum log_level level, const char *fmt, ...)
{
    if (!log_enabled(level))
        return;
    char text[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    wipe(r);
    message("%s", text);
}

/* Renews the line on a terminal, adds one elsewhere. */
static void put_line(struct report *r, const char *text)
{
    if (!log_enabled(LOG_INFO))
        return;
    if (!r->terminal) {
        message("%s", text);
        return;
    }
    wipe(r);
    put(text);
    r->line_open = true;
}

void report_failure(struct report *r, const struct error *e)
{
    int code = e->code > 0 && e->code < ERROR_COUNT ? e->code : ERROR_IO;
    if (r->failures[code]++ == 0)
        snprintf(r->example[code], sizeof(r->example[code]), "%.*s",
                 (int)str_utf8_whole(str_slice(e->text, MIN_OF(strlen(e->text), (size_t)159))),
                 e->text);
}

void report_empty(struct report *r, const char *why, bool kept)
{
    size_t i = 0;
    if (kept) {
        r->n_kept++;
        return;
    }
    while (i < REPORT_REASONS - 1 && r->empty[i].why && strcmp(r->empty[i].why, why) != 0)
        i++;
    r->empty[i].why = why;
    r->empty[i].n++;
}

bool report_due(const struct report *r)
{
    return clock_mono_us() >= r->next_us;
}

static void measure_rate(struct report *r)
{
    int64_t now_us = clock_mono_us();
    uint64_t tokens = r->prompt_tokens + r->decode_tokens;
    if (now_us <= r->shown_us)
        return;
    double now = (double)(tokens - r->shown_tokens) * 1e6 / (double)(now_us - r->shown_us);
    r->rate = r->rate > 0 ? r->rate + RATE_WEIGHT * (now - r->rate) : now;
    r->shown_tokens = tokens;
    r->shown_us = now_us;
}

void report_line(struct report *r, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_line(r, text);
    r->next_us = clock_mono_us() + r->every_us;
}

void report_progress(struct report *r, const struct queue_counts *c, unsigned n_running,
                     const char *more)
{
    measure_rate(r);
    uint64_t left = view_unfinished(c);
    uint64_t finished = r->n_done + r->n_failed;
    double elapsed_s = (double)(clock_mono_us() - r->started_us) / 1e6;
    char eta[64] = "", duration[24];
    if (finished && left)
        snprintf(
            eta, sizeof(eta), ", about %s left",
            str_format_duration((int64_t)(elapsed_s / (double)finished * (double)left), duration));
    report_line(r, "%llu of %llu finished, %u running, %.1f tokens/s%s%s",
                (unsigned long long)(c->total - left), (unsigned long long)c->total, n_running,
                r->rate, eta, more);
}

void report_loading(struct report *r, uint64_t done_bytes, uint64_t total_bytes)
{
    if (!report_due(r) || done_bytes >= total_bytes)
        return;
    char done[24], total[24];
    report_line(r, "loading the model: %s of %s", str_format_size(done_bytes, done),
                str_format_size(total_bytes, total));
}

void report_end(struct report *r)
{
    wipe(r);
}

static double per_second(double n, double ms)
{
    return ms > 0 ? 1000 * n / ms : 0;
}

static uint64_t expert_bytes(const struct report *r)
{
    return r->read_bytes - MIN_OF(r->layer_bytes, r->read_bytes);
}

static void say_layers(struct report *r)
{
    char size[24], wait[24];
    if (r->layer_bytes)
        report_say(r, LOG_INFO, "layers: %s read for steps, %s waiting for them",
                   str_format_size(r->layer_bytes, size),
                   str_format_duration((int64_t)(r->layers_wait_ms / 1000), wait));
}

static void say_experts(struct report *r)
{
    char size[24], rate[24], wait[24];
    const double wanted = (double)(r->expert_hits + r->expert_misses);
    if (r->expert_misses)
        report_say(
            r, LOG_INFO,
            "experts: %s read at %s/s, %.1f %% of those wanted were in memory, %s waiting "
            "for reads",
            str_format_size(expert_bytes(r), size),
            str_format_size((uint64_t)per_second((double)expert_bytes(r), r->expert_busy_ms), rate),
            100 * (double)r->expert_hits / wanted,
            str_format_duration((int64_t)(r->expert_wait_ms / 1000), wait));
}

/* The forecast beside what came of it. */
static void say_expected(struct report *r)
{
    char hits[64] = "", were[64] = "";
    const double wanted = (double)(r->expert_hits + r->expert_misses);
    if (r->expected_rate <= 0 || r->sequences_tokens == 0)
        return;
    if (wanted > 0) {
        snprintf(hits, sizeof(hits), " and %.0f %% of experts in memory",
                 100 * r->expected_hit_rate);
        snprintf(were, sizeof(were), " and %.0f %%", 100 * (double)r->expert_hits / wanted);
    }
    report_say(
        r, LOG_INFO, "expected %.3g tokens/s of one sequence alone%s; each that ran had %.3g%s",
        r->expected_rate, hits, per_second((double)r->sequences_tokens, r->sequences_ms), were);
}

static void say_empty(struct report *r)
{
    char why[200] = "";
    size_t at = 0;
    uint64_t n = 0;
    bool tokens = false;
    for (size_t i = 0; i < REPORT_REASONS && r->empty[i].n && at < sizeof(why); i++) {
        at += (size_t)snprintf(why + at, sizeof(why) - at, "%s%llu %s", i ? ", " : "",
                               (unsigned long long)r->empty[i].n, r->empty[i].why);
        n += r->empty[i].n;
        tokens = tokens || strcmp(r->empty[i].why, "tokens_spent_on_thought") == 0;
    }
    if (n)
        report_say(r, LOG_WARN,
                   "%llu of the answers came out empty (%s); 'nocturne retry --empty' runs them "
                   "again, see --reasoning-budget%s",
                   (unsigned long long)n, why, tokens ? " and --max-tokens" : "");
    if (r->n_kept)
        report_say(r, LOG_WARN, "%llu that ran again came out empty; kept the earlier answer%s",
                   (unsigned long long)r->n_kept, r->n_kept == 1 ? "" : "s");
}

void report_summary(struct report *r)
{
    double elapsed_s = (double)(clock_mono_us() - r->started_us) / 1e6;
    char duration[24];
    report_say(
        r, LOG_INFO,
        "%llu done, %llu failed, %llu returned in %s; %llu tokens read, %llu written (%.1f/s)",
        (unsigned long long)r->n_done, (unsigned long long)r->n_failed,
        (unsigned long long)r->n_returned, str_format_duration((int64_t)elapsed_s, duration),
        (unsigned long long)r->prompt_tokens, (unsigned long long)r->decode_tokens,
        elapsed_s > 0 ? (double)r->decode_tokens / elapsed_s : 0);
    say_layers(r);
    say_experts(r);
    say_expected(r);
    say_empty(r);
    int most = 0;
    for (int i = 1; i < ERROR_COUNT; i++) {
        if (r->failures[i] > r->failures[most])
            most = i;
    }
    if (r->failures[most])
        report_say(r, LOG_WARN, "most common failure (%llu): %s",
                   (unsigned long long)r->failures[most], r->example[most]);
}

cJSON *report_json(const struct report *r)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"done", (double)r->n_done},
        {"failed", (double)r->n_failed},
        {"returned", (double)r->n_returned},
        {"seconds", (double)(clock_mono_us() - r->started_us) / 1e6},
        {"prompt_tokens", (double)r->prompt_tokens},
        {"decode_tokens", (double)r->decode_tokens},
        {"step_ms", r->step_ms},
        {"row_layers", (double)r->row_layers},
        {"expected_tokens_per_second", r->expected_rate},
        {"expected_hit_rate", r->expected_hit_rate},
        {"sequence_tokens_per_second", per_second((double)r->sequences_tokens, r->sequences_ms)},
        {"load_bytes", (double)r->load_bytes},
        {"bytes_read", (double)r->read_bytes},
        {"layer_bytes", (double)r->layer_bytes},
        {"layers_wait_ms", r->layers_wait_ms},
        {"experts_wanted", (double)r->experts_wanted},
        {"expert_hits", (double)r->expert_hits},
        {"expert_misses", (double)r->expert_misses},
        {"guesses", (double)r->expert_guesses},
        {"good_guesses", (double)r->expert_good_guesses},
        {"reads", (double)r->expert_reads},
        {"read_ms", r->expert_busy_ms},
        {"read_wait_ms", r->expert_wait_ms},
        {"read_bytes_per_second", per_second((double)expert_bytes(r), r->expert_busy_ms)},
    };
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        cJSON_AddNumberToObject(o, numbers[i].name, numbers[i].value);
    view_add_count(o, "process_read_bytes", r->process_read_bytes);
    view_add_count(o, "group_read_bytes", r->group_read_bytes);
    return o;
}
