/*
 * What the worker tells people: a line that renews itself on a terminal, plain lines elsewhere, a
 * summary at the end. Progress and summary are of level info: --log warn leaves only what went wrong.
 * Owns only counts. One thread.
 */
#ifndef BATCH_REPORT_H
#define BATCH_REPORT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "queue/queue.h"

#define REPORT_REASONS 4

struct report {
    bool terminal;
    bool line_open; /* a progress line stands on the terminal */
    int64_t every_us, next_us;
    int64_t started_us; /* monotonic */
    uint64_t n_done, n_failed, n_returned;
    uint64_t prompt_tokens, decode_tokens;
    uint64_t shown_tokens; /* at the last line */
    int64_t shown_us;
    double rate; /* tokens/s, smoothed over lines */
    /* what steps read of the model's file, and found, when the experts do not all stay */
    uint64_t read_bytes, experts_wanted, expert_hits, expert_misses, expert_reads;
    uint64_t expert_guesses, expert_good_guesses;
    uint64_t load_bytes; /* and loads read, each of them all of what stays */
    /* all reads of disks while the model was loaded, as the kernel counts; -1: it does not tell */
    int64_t process_read_bytes, group_read_bytes;
    uint64_t layer_bytes; /* of read_bytes: layers that do not stay */
    double layers_wait_ms;
    double expert_busy_ms, expert_wait_ms; /* reads under way; steps stood waiting for some */
    double step_ms;                        /* all steps took, waiting included */
    uint64_t row_layers;                   /* rows that layers were computed for */
    /* of decoding one sequence, where not everything stays in memory: as forecast, 0: not; as it was */
    double expected_rate, expected_hit_rate;
    double sequences_ms;
    uint64_t sequences_tokens;
    /* of n_done: the answer says nothing, by why; and retries like that beside an earlier answer */
    struct report_reason {
        const char *why; /* a literal */
        uint64_t n;
    } empty[REPORT_REASONS];
    uint64_t n_kept;
    uint64_t failures[ERROR_COUNT];
    char example[ERROR_COUNT][160]; /* the first sentence of each */
};

void report_init(struct report *r, int64_t every_us);
/* A message, if --log lets its level through; a progress line is wiped first. */
void report_say(struct report *r, enum log_level level, const char *fmt, ...) ATTR_PRINTF(3, 4);
void report_failure(struct report *r, const struct error *e);
/* An empty answer; `why` is a literal. kept: an earlier one, which says something, stays. */
void report_empty(struct report *r, const char *why, bool kept);
/* Whether a progress line is due. */
bool report_due(const struct report *r);
/* more: what else there is to say; may be empty. */
void report_progress(struct report *r, const struct queue_counts *c, unsigned n_running,
                     const char *more);
/* The same with a text of the caller's. */
void report_line(struct report *r, const char *fmt, ...) ATTR_PRINTF(2, 3);
void report_loading(struct report *r, uint64_t done_bytes, uint64_t total_bytes);
void report_summary(struct report *r);
/* The same and more as one object. */
cJSON *report_json(const struct report *r);
/* Wipes a progress line that stands on the terminal. */
void report_end(struct report *r);

#endif
