/*
 * What a night was: its runs, what they did, what went wrong, and what is left; read once from the
 * database and then shown as text, JSON or a page.
 *
 * A night goes from noon to noon by the local clock and has the runs that began in it; it may be several,
 * where a worker died and was started again. A run that lasts a day or more is cut at noons.
 *
 * Stays true: every sum is the database's own, of the attempts that ended in the night (sums), so nights
 * add up to all there is; rates and pressure come from the samples that the worker took meanwhile, and
 * end with the last one where it was killed.
 *
 * Owns everything it points to. One thread.
 */
#ifndef BATCH_NIGHT_NIGHT_H
#define BATCH_NIGHT_NIGHT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "batch/output.h"
#include "queue/queue.h"

/* Which: a run, all since a time, the night that began on a day; none of them: the last night. */
struct night_choice {
    int64_t run;
    int64_t since_us;
    const char *date; /* "2026-11-30" */
};

/* What samples say that attempts do not; of the time between the first and the last of each run. */
struct night_course {
    int64_t busy_us; /* jobs ran */
    int64_t held_us; /* a gate was shut, or the disk full */
    int64_t idle_us; /* neither: nothing to do, or the model was being loaded */
    int64_t prompt_tokens, decode_tokens, read_bytes;
    /* -1: nobody knows */
    int64_t pressure_some_us, pressure_full_us, major_faults, refaults, throttled_us, limit_hits;
    int64_t peak_ledger_bytes, peak_resident_bytes;
};

struct night_run {
    struct queue_run run;
    struct queue_span span;
    int64_t from_us, until_us; /* of the night */
    struct queue_run_sums sums;
    struct night_course course;
    struct queue_sample *sample; /* [n_samples] */
    size_t n_samples;
    cJSON *machine, *model, *configuration, *plan, *totals;
};

/* Failures of one cause, with the first as the example. */
struct night_cause {
    char code[64];
    int64_t n_final, n_returned; /* answered with it; came back and were tried again */
    struct queue_id request;
    char *custom_id;
    char *text;
};

struct night_event {
    int64_t at_us;
    size_t order;
    int64_t run; /* 0: of none */
    char kind[48];
    char *text;
};

struct night {
    char title[128];           /* "Night of Monday, 30 November 2026" */
    int64_t from_us, until_us; /* of the first run and the last */
    struct night_run *run;     /* [n_runs] in order */
    size_t n_runs;
    struct queue_run_sums sums;
    int64_t n_running, n_interrupted; /* attempts: of a worker that lives; of one that died */
    struct night_course course;
    struct night_cause *cause; /* [n_causes], the most frequent first */
    size_t n_causes;
    struct queue_longest *longest; /* [n_longest] */
    size_t n_longest;
    struct night_event *event; /* [n_events] in order */
    size_t n_events;
    int64_t expired, cancelled;

    /* The queue as it is now. */
    struct queue_status status;
    double jobs_per_s; /* while jobs ran, of this night; else of the last hour; 0: unknown */
    int64_t work_us;   /* that the rest takes; -1: unknown */
    int64_t done_us;   /* when it will be done, inside of windows if there are some; 0: unknown */
    bool windowed;
};

/* ERROR_NOTFOUND when there is no such run, or none at all. */
int night_open(struct queue *q, const struct night_choice *choice, struct night **ret,
               struct error *e);
void night_free(struct night *n); /* NULL is fine */

/* ---- Ways to show it -------------------------------------------------------------------------- */

void night_text(const struct night *n, struct output *out);
cJSON *night_json(const struct night *n);
/* A whole HTML page, which needs nothing beside itself. */
int night_page(const struct night *n, struct buf *out, struct error *e);

/* How a run ended, for people: "drained", "died; last sign of life 03:12". */
const char *night_end_text(const struct queue_run *r, char out[96]);
/* "12.3 s" below a minute, else "1h 02m 03s". */
const char *night_time_text(int64_t us, char out[32]);
/* Of a second: "1,234", "56.7", "0.123". */
const char *night_rate_text(int64_t n, int64_t us, char out[32]);
/* "1,234,567" */
const char *night_count(int64_t n, char out[32]);

#endif
