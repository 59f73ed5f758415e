/*
 * PUBLIC. The queue: which jobs wait, run and are finished, durably.
 *
 * A *batch* is a set of requests that arrived together; a *request* is one input line, one custom_id
 * in and one output line out; a *job* is one run of the engine for a request; an *attempt* is one
 * claim of a job by a worker, and its number is the fence. The queue knows nothing about what a
 * request means: bodies and progress are opaque bytes, results and errors are JSON that it only
 * stores. It never calls the engine.
 *
 * Owns: one SQLite file in WAL mode with its -wal and -shm, the lock files of workers
 * (DB.worker-UUID) and the reserve file (DB.reserve), all beside each other on a local disk.
 *
 * Stays true, whatever dies when (each promise has a test of its name in tests/queue/promises.c):
 *   1. a job belongs to at most one live attempt;
 *   2. a stale attempt's write is refused and changes nothing;
 *   3. a done job never runs again;
 *   4. after a crash at any instant every job is in exactly one state;
 *   5. the export of a finished batch has one line per input line.
 * What a function acknowledged with 0 survives power loss. The transition table is queue/state.h.
 *
 * Threads: a `struct queue` (and everything made from it) belongs to one thread at a time; open
 * another for another thread. Only queue_worker_fenced may be called from any thread. Never fork
 * with one open and use it in the child.
 *
 * Strings and bytes given in are copied where they must outlive the call. Lists handed out own
 * their memory and are released with their _release function; a zeroed list may be released too.
 * No function keeps a read open after it returned: a list holds at most 1,000 rows or 4 MiB and
 * names the key to go on from. Wall times are microseconds since 1970 from base/clock; 0 = unset.
 *
 * Errors beside the obvious: ERROR_BUSY another process held the write lock for longer than the
 * timeout, ERROR_FULL the disk is full (nothing was changed: see queue_reserve_drop), ERROR_FENCED
 * this worker was superseded, ERROR_CONFLICT the job or batch is not in a state that allows it,
 * ERROR_FORMAT the file is damaged or not ours.
 */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "queue/state.h"

struct queue;
struct queue_submit;
struct queue_worker;
struct queue_watch;

/* A UUIDv7; clock_uuid_text and clock_uuid_parse turn it into text and back. */
struct queue_id {
    uint8_t bytes[16];
};

#define QUEUE_FINGERPRINT_BYTES 32
#define QUEUE_LIST_ROWS 1000
#define QUEUE_LIST_BYTES (4u << 20)

/* ---- Opening ---------------------------------------------------------------------------------- */

struct queue_options {
    bool create;            /* make the file and its folder when missing; else ERROR_NOTFOUND */
    int busy_timeout_ms;    /* 0: 30,000 */
    uint64_t reserve_bytes; /* size of the reserve file; 0: 32 MiB */
};

/*
 * Opens the database and brings its schema up to date. Refuses, each with a sentence of its own:
 * network file systems, a file of another program, a schema newer than this program (both versions
 * named), a file or folder this user may not write (names the owner).
 */
int queue_open(const char *path, const struct queue_options *opt, struct queue **ret,
               struct error *e);
void queue_close(struct queue *q); /* NULL is fine */
const char *queue_path(const struct queue *q);
/* The version of the schema that this program writes. */
int queue_schema_version(void);
/*
 * The version of SQLite in use. *ret_guarded: one that can corrupt a database when a checkpoint races a commit,
 * which is why no connection here checkpoints by itself.
 */
const char *queue_sqlite_version(bool *ret_guarded);

/* ---- Submitting ------------------------------------------------------------------------------- */

struct queue_batch_options {
    struct str name;              /* for people; may be empty */
    struct str endpoint;          /* "/v1/chat/completions" */
    struct str metadata_json;     /* an object; empty: {} */
    const struct queue_id *after; /* batches that must be finished first */
    size_t n_after;
};

struct queue_new_request {
    struct str custom_id; /* unique in the batch */
    struct str endpoint;  /* empty: the batch's */
    struct str body;      /* opaque */
    int priority;         /* higher first */
    int64_t not_before_us;
    int64_t deadline_us; /* 0: none */
    uint64_t line;       /* 1-based line of the input, for messages; 0: none */
};

/*
 * A batch being submitted belongs to this process: nobody claims from it, and when the process dies
 * before publishing, the next submitter or worker deletes it. Requests are gathered and written in
 * transactions below 4 MiB, so the write lock is never held while the caller reads its input.
 */
int queue_submit_begin(struct queue *q, const struct queue_batch_options *opt,
                       struct queue_submit **ret, struct error *e);
/*
 * ERROR_BADDATA for a custom_id that the batch has already, naming both lines. The sentence may be
 * about an earlier request of the same batch; after any error only queue_submit_abort is left.
 */
int queue_submit_add(struct queue_submit *s, const struct queue_new_request *r, struct error *e);
/*
 * Publishes the batch, or, unless `force`, finds an unfinished published batch of the same identity,
 * deletes this one and gives that one's id with *ret_found = true. Frees the submit when it
 * succeeded. identity: 32 bytes, or NULL for none. An empty batch is ERROR_INVALID.
 */
int queue_submit_publish(struct queue_submit *s, const uint8_t *identity, bool force,
                         struct queue_id *ret_batch, bool *ret_found, struct error *e);
/* Deletes what was written and frees the submit. NULL is fine. */
void queue_submit_abort(struct queue_submit *s);

/* ---- The worker's row ------------------------------------------------------------------------- */

struct queue_worker_options {
    uint64_t planned_bytes; /* what the memory plan takes */
    uint64_t
        available_bytes; /* what a second process could take beside a superseded one; 0: ask not */
    int beat_ms;         /* 0: 2,000 */
    int lease_ms;        /* 0: 12,000; at least 4 beats */
    struct str status_json; /* shown by queue_status; empty: {} */
    /* Why the previous worker ended, when something outside knows (out of memory): blames no job. */
    struct str explained;
};

/*
 * Becomes the worker of this database. A live row whose lock file is free belonged to a dead process:
 * it is replaced at once and its running jobs are requeued in the same transaction. Where the lock is
 * held this watches the beat: when it moves, ERROR_LOCKED names the holder's pid; when it stands
 * still for one lease of watching, the holder is superseded, unless planned_bytes + the holder's
 * exceed available_bytes (ERROR_BUSY with pid and bytes). `stop`, when given, ends the watch with
 * ERROR_INTERRUPTED. The queue must outlive the worker.
 */
int queue_worker_open(struct queue *q, const struct queue_worker_options *opt,
                      bool (*stop)(void *ctx), void *stop_ctx, struct queue_worker **ret,
                      struct error *e);
/*
 * Starts the beat: a thread of its own with a connection of its own. When the beat is refused,
 * `fenced` is called once from that thread (may be NULL); the process must end with 3.
 */
int queue_worker_beat(struct queue_worker *w, void (*fenced)(void *ctx), void *ctx,
                      struct error *e);
bool queue_worker_fenced(const struct queue_worker *w);
/* Whether taking over from a dead worker ended a request: its third death alone (worker_crashed). */
bool queue_worker_found_crashed(const struct queue_worker *w);
int queue_worker_status(struct queue_worker *w, struct str status_json, struct error *e);
/* From now on this worker's death has an explanation (a stop was asked for): it blames no job. */
int queue_worker_stopping(struct queue_worker *w, struct str reason, struct error *e);
/*
 * Somebody knows that the worker, which is dead, was killed for lack of memory: that blames no job, and the
 * queue is paused with this sentence, until queue_resume. *ret: it is dead, or false and nothing was done.
 */
int queue_worker_killed(struct queue *q, struct str why, bool *ret, struct error *e);
/* Stops the beat, gives running jobs back, ends the row, drops the lock and frees. NULL is fine. */
void queue_worker_close(struct queue_worker *w, struct str reason);

/* ---- The record of a run ---------------------------------------------------------------------- */

/*
 * A run is a worker's life as people see it: what it was set up to do, how it went, why it stopped. One
 * a worker. Writes after the worker was superseded are ERROR_FENCED and change nothing; those before
 * queue_run_begin are ERROR_NOTFOUND. Samples and notes wait a second at most for the write lock: a
 * caller drops what does not get in. They are kept for 100 days, of notes the last 10,000 of a run; runs
 * themselves stay. All JSON is an object; empty: {}.
 */
struct queue_run_about {
    struct str machine_json, model_json, configuration_json, plan_json;
};
int queue_run_begin(struct queue_worker *w, const struct queue_run_about *about, struct error *e);

/* How far a run is; queue_run_sample adds the times. */
struct queue_sample {
    int64_t at_us;
    int64_t
        elapsed_us; /* since the run began, of a clock that nobody sets and that sleep does not stop */
    /* of the moment */
    int64_t stand; /* how far it stands back; 0: it works */
    int64_t running;
    int64_t ledger_bytes, resident_bytes;
    int64_t available_bytes; /* to all programs of the machine */
    /* grown since the run began */
    int64_t done, failed, returned;
    int64_t prompt_tokens, decode_tokens;
    int64_t read_bytes;
    int64_t major_faults, refaults;
    int64_t pressure_some_us, pressure_full_us;
    int64_t throttled_us, limit_hits;
};
int queue_run_sample(struct queue_worker *w, const struct queue_sample *s, struct error *e);
int queue_run_note(struct queue_worker *w, struct str kind, struct str detail_json,
                   struct error *e);
/* Before queue_worker_close. error: the sentence of a failure, or empty. */
int queue_run_end(struct queue_worker *w, struct str why, int status, struct str error,
                  struct str totals_json, struct error *e);

/* ---- Claims ----------------------------------------------------------------------------------- */

struct queue_claim {
    int64_t job;
    int64_t attempt; /* the fence: every later write carries both */
    struct queue_id request;
    struct queue_id batch;
    char *custom_id;
    char *endpoint;
    char *role; /* "answer" */
    char *body; /* opaque; NUL after it */
    size_t body_bytes;
    int64_t created_us; /* when the batch was submitted */
    int64_t deadline_us;
    int priority;
    int retries;    /* failed attempts that were answered with QUEUE_END_RETRY */
    char *progress; /* what earlier attempts saved, in order; NULL: nothing */
    size_t progress_bytes;
    uint8_t fingerprint[QUEUE_FINGERPRINT_BYTES]; /* of the progress; zero when there is none */
};

struct queue_claims {
    struct queue_claim *item; /* [n] */
    size_t n;
};

/*
 * Moves up to `max` queued jobs to running: priority (high first), deadline, then order of arrival.
 * n = 0 when nothing is claimable, while the queue is paused, or while suspects of a crash must be
 * alone. Bodies of one call stay within queue_worker_room together; a job whose body alone is larger
 * comes alone and without it: body NULL, body_bytes says how large it is.
 */
int queue_claim(struct queue_worker *w, size_t max, struct queue_claims *ret, struct error *e);
/* The most bytes of bodies that one claim may bring; 64 MiB until it is set. */
void queue_worker_room(struct queue_worker *w, size_t bytes);
void queue_claims_release(struct queue_claims *c);

/* ---- Writes of a running attempt -------------------------------------------------------------- */

/*
 * Each of these writes many jobs in one transaction. `refused` is set per job: the attempt is not the
 * job's running one any more (cancelled, superseded); drop that sequence. The call still succeeds.
 */
struct queue_progress {
    int64_t job;
    int64_t attempt;
    const uint8_t *fingerprint; /* [32]; must equal that of progress already there */
    struct str bytes;           /* appended */
    bool refused;
};
int queue_progress_append(struct queue *q, struct queue_progress *item, size_t n, struct error *e);
/* Forgets the saved progress (another fingerprint, say) and records why as an event. */
int queue_progress_discard(struct queue *q, int64_t job, int64_t attempt, struct str why,
                           bool *ret_refused, struct error *e);

/* What one attempt cost; stored per attempt, shown by queue_show. */
struct queue_timing {
    int64_t load_ms; /* this attempt's share of loading the model */
    int64_t prefill_tokens, prefill_ms;
    int64_t decode_tokens, decode_ms;
    int64_t resumed_tokens;
    int64_t read_bytes;
    int64_t expert_hits, expert_misses;
    /* from here on -1: the kernel does not tell */
    int64_t major_faults;
    int64_t pressure_some_us, pressure_full_us;
    /* of its control group: pages that came back after reclaim, waits for processor time, events of
     * memory.high and memory.max */
    int64_t refaults, throttled_us, limit_hits;
    int64_t peak_resident_bytes;
    struct str peak_json; /* peak bytes by ledger category, an object; empty: {} */
};

enum queue_end_kind {
    QUEUE_END_DONE,    /* json is the result */
    QUEUE_END_FAILED,  /* json is the error object; final */
    QUEUE_END_RETRY,   /* json is the error object; the job comes back after a growing pause */
    QUEUE_END_RELEASE, /* given back as it is, nobody blamed; json may be empty */
};

struct queue_end {
    int64_t job;
    int64_t attempt;
    enum queue_end_kind kind;
    struct str json;
    struct str finish; /* "stop", "length"; for errors their code */
    int http;          /* status of the response line; 200 for done */
    struct str empty;  /* done: why the answer says nothing, in a word; empty: it says something */
    struct queue_timing timing;
    bool refused;
};
int queue_end(struct queue *q, struct queue_end *item, size_t n, struct error *e);

/* Whether the attempts are still theirs, without writing: sets `refused` only. */
int queue_check_attempts(struct queue *q, struct queue_progress *item, size_t n, struct error *e);

/* Whether that job may still run: held, queued or running. Ids that never were may not. */
int queue_job_open(struct queue *q, int64_t job, bool *ret, struct error *e);

/* ---- The scan --------------------------------------------------------------------------------- */

/*
 * Promotes what is due (published, time come, dependencies finished), expires what is too late,
 * goes on with cancelled batches, deletes the batches of dead submitters; at most 1,000 jobs a
 * transaction. *ret_more: call again soon. The worker calls it when it wakes and every 30 s.
 */
int queue_scan(struct queue *q, bool *ret_more, struct error *e);

/* ---- Orders from people ----------------------------------------------------------------------- */

int queue_pause(struct queue *q, struct str reason, struct error *e);
int queue_resume(struct queue *q, struct error *e);
/* *ret_paused; reason (may be NULL) gets the text. */
int queue_paused(struct queue *q, bool *ret_paused, struct buf *reason, struct error *e);
/* Whether queue_worker_killed has paused it. */
int queue_paused_by_kill(struct queue *q, bool *ret, struct error *e);

enum queue_kind { QUEUE_KIND_BATCH, QUEUE_KIND_REQUEST };
struct queue_target {
    enum queue_kind kind;
    struct queue_id id;
};
/*
 * Finds what a person means: the UUID of a batch or request, the name of a batch (the newest), or a
 * custom_id (in `batch` when given, else in the newest batch that has it). ERROR_NOTFOUND otherwise.
 */
int queue_find(struct queue *q, struct str text, const struct queue_id *batch,
               struct queue_target *ret, struct error *e);

/* Cancels what is not final; a running attempt's next write is refused. *ret_n: requests changed. */
int queue_cancel(struct queue *q, struct queue_target t, uint64_t *ret_n, struct error *e);
/*
 * Adds a job under a finished request; `body` empty: the last job's. ERROR_CONFLICT while a job of it
 * is unfinished. The last good result stays the answer until a success replaces it; an empty one is
 * no success in that sense.
 */
int queue_retry(struct queue *q, struct queue_id request, struct str body, struct error *e);
int queue_hold(struct queue *q, struct queue_target t, bool on, uint64_t *ret_n, struct error *e);
int queue_set_priority(struct queue *q, struct queue_target t, int priority, uint64_t *ret_n,
                       struct error *e);

/* ---- Reading ---------------------------------------------------------------------------------- */

/*
 * Requests by state; held ones also by reason (a request with two reasons counts in both, but one
 * that waits for another batch is not counted as being submitted).
 */
struct queue_counts {
    uint64_t total;
    uint64_t state[QUEUE_STATE_COUNT];
    uint64_t held_submitting, held_not_before, held_dependency, held_user;
    uint64_t empty; /* of those done: the answer says nothing */
};

struct queue_worker_info {
    bool present; /* there is a live row */
    bool alive;   /* and its lock is held */
    struct queue_id id;
    int pid;
    uint64_t planned_bytes;
    int64_t started_us;
    int64_t beat_age_ms; /* -1: another boot */
    char *status_json;
    char *stopping; /* reason, or NULL */
};

/* From at most the last 1,000 attempts that ended within an hour. Zero: nothing known. */
struct queue_rates {
    double requests_per_s;
    double decode_tokens_per_s, prefill_tokens_per_s; /* over wall time, all slots together */
    uint64_t n_attempts;
};

struct queue_status {
    struct queue_counts counts;
    struct queue_rates rates;
    struct queue_worker_info worker;
    bool paused;
    char *pause_reason;
    int64_t next_not_before_us; /* earliest held job waiting for its time; 0: none */
};
/* batch: NULL for everything published (rates are always of the whole queue). */
int queue_status(struct queue *q, const struct queue_id *batch, struct queue_status *ret,
                 struct error *e);
void queue_status_release(struct queue_status *s);

/*
 * How fast the model that last finished something is, from its last 10,000 attempts that were done.
 * Zero attempts: nothing is known.
 */
struct queue_measure {
    uint64_t n_attempts;
    uint64_t tokens;               /* generated by them */
    int64_t decode_ms, prefill_ms; /* each attempt's own, added up */
    int64_t held_us;               /* from claim to end, added up */
    int64_t busy_us;               /* while at least one of them ran */
    int64_t first_us, last_us;     /* wall time of the first claim and the last end */
    char model[128];               /* as its worker called it; "" unknown */
};
int queue_measured(struct queue *q, struct queue_measure *ret, struct error *e);

struct queue_batch {
    int64_t key;
    struct queue_id id;
    char *name;
    char *endpoint;
    char *metadata_json;
    int64_t created_us, finished_us, cancelled_us; /* finished_us 0: unfinished */
    struct queue_counts counts;
};
struct queue_batches {
    struct queue_batch *item; /* [n], newest first */
    size_t n;
    int64_t next_key; /* pass as before_key to go on; 0: that was all */
};
int queue_batches(struct queue *q, int64_t before_key, size_t limit, struct queue_batches *ret,
                  struct error *e);
int queue_batch(struct queue *q, struct queue_id id, struct queue_batches *ret, struct error *e);
void queue_batches_release(struct queue_batches *b);

struct queue_request {
    int64_t key;
    struct queue_id id, batch;
    char *custom_id;
    enum queue_state state;
    unsigned hold; /* QUEUE_HOLD_* when held */
    int priority;
    int64_t created_us, finished_us;
    int64_t attempts;
    char *finish; /* of the answer, or NULL */
    int http;
    char *empty; /* done: why the answer says nothing; else NULL */
};
struct queue_requests {
    struct queue_request *item; /* [n], in order of arrival */
    size_t n;
    int64_t next_key; /* pass as after_key to go on; 0: that was all */
};
struct queue_filter {
    const struct queue_id *batch; /* NULL: all */
    unsigned states;              /* bits 1 << enum queue_state; 0: all */
    bool empty;                   /* only those done whose answer says nothing */
    int64_t after_key;
    size_t limit; /* 0 or above 1,000: 1,000 */
};
int queue_requests(struct queue *q, const struct queue_filter *f, struct queue_requests *ret,
                   struct error *e);
void queue_requests_release(struct queue_requests *r);

struct queue_attempt_info {
    int64_t attempt;
    int64_t claimed_us, ended_us;
    int64_t wait_us; /* queued until claimed */
    char *end;       /* "done" "failed" "retry" "released" "died" "cancelled", NULL while it runs */
    char *error_json; /* or NULL */
    char *peak_json;
    struct queue_timing timing; /* peak_json inside is empty */
};
struct queue_job_info {
    int64_t job;
    char *role;
    enum queue_state state;
    unsigned hold;
    int priority, retries, lone_deaths;
    bool suspect;
    int64_t not_before_us, deadline_us;
    struct queue_attempt_info *attempt; /* [n_attempts]; the last 100 */
    size_t n_attempts;
};
struct queue_show {
    struct queue_request request;
    char *endpoint;
    char *body;
    size_t body_bytes;
    char *result_json;          /* result or error of the answer, or NULL */
    struct queue_job_info *job; /* [n_jobs] */
    size_t n_jobs;
};
int queue_show(struct queue *q, struct queue_id request, struct queue_show *ret, struct error *e);
void queue_show_release(struct queue_show *s);

/*
 * One final answer for the export. json is the result (done), the error object (failed), or NULL
 * (cancelled, expired: the state says everything). A request whose retry is unfinished shows its last
 * good result. Lines missing = counts.total - rows given.
 */
struct queue_result {
    int64_t key;
    struct queue_id request, batch;
    char *custom_id;
    char *endpoint;
    enum queue_state state; /* of the answer */
    int http;
    char *finish;
    char *json;
    char *empty; /* why the answer says nothing; NULL: it says something, or there is none */
    int64_t attempts;
    int64_t wait_us; /* of the attempt that answered */
};
struct queue_results {
    struct queue_result *item; /* [n] */
    size_t n;
    int64_t next_key; /* the last key given: always the after_key to go on from */
    bool more;
};
/* In order of arrival. batch NULL: every published batch. */
int queue_results(struct queue *q, const struct queue_id *batch, int64_t after_key, size_t limit,
                  struct queue_results *ret, struct error *e);
/* In order of finishing, each request once: for --follow. Keys are not those of queue_results. */
int queue_results_follow(struct queue *q, const struct queue_id *batch, int64_t after_key,
                         size_t limit, struct queue_results *ret, struct error *e);
void queue_results_release(struct queue_results *r);

/* Progress of the request's newest job for `tail`: bytes appended to out, pieces after *seq. */
struct queue_tail {
    int64_t job, seq; /* in: 0 at first; out: the last piece given */
    bool restarted;   /* the bytes of earlier calls were discarded: forget them */
    int64_t attempt;
    enum queue_state state; /* of the request */
};
int queue_tail(struct queue *q, struct queue_id request, struct queue_tail *t, struct buf *out,
               struct error *e);

struct queue_event {
    int64_t key;
    int64_t at_us;
    char *kind; /* "published" "final" "batch_finished" "requeued" "suspect" "crashed" ... */
    struct queue_id batch, request; /* zero: none */
    int64_t job, attempt;           /* 0: none */
    char *detail_json;
};
struct queue_events {
    struct queue_event *item;
    size_t n;
    int64_t next_key;
};
int queue_events(struct queue *q, int64_t after_key, size_t limit, struct queue_events *ret,
                 struct error *e);
void queue_events_release(struct queue_events *v);
/* The newest one's key (0: there is none): where whoever wants only what happens from now on begins. */
int queue_events_last(struct queue *q, int64_t *ret_key, struct error *e);

/* ---- The record, read ------------------------------------------------------------------------- */

struct queue_run {
    int64_t key; /* what people call it by: 1, 2 ... */
    int64_t started_us;
    int64_t known_us; /* its end; of one that runs or died: the last that is known of it */
    bool running;     /* its worker lives */
    char
        *why; /* it stopped, in a word; "died", "superseded" when it could not say; NULL: it runs */
    int status;  /* the exit status; -1: unknown */
    char *error; /* the sentence of a failure, or NULL */
    char *machine_json, *model_json, *configuration_json, *plan_json, *totals_json;
};
struct queue_runs {
    struct queue_run *item; /* [n], newest first */
    size_t n;
    int64_t next_key; /* pass as before_key to go on; 0: that was all */
};
/* before_key 0: from the newest. */
int queue_runs(struct queue *q, int64_t before_key, size_t limit, struct queue_runs *ret,
               struct error *e);
void queue_runs_release(struct queue_runs *r);
void queue_run_release(struct queue_run *r); /* of one that was taken out of a list */

/*
 * A part of a run in wall time: what ended from `from_us` until before `until_us`. An attempt that died
 * counts when it was claimed, because nobody knows when it ended.
 */
struct queue_span {
    int64_t run;
    int64_t from_us, until_us; /* 0 and INT64_MAX: all of it */
};

/* What the attempts of a span add up to. What an attempt did not know adds nothing. */
struct queue_run_sums {
    int64_t attempts;
    int64_t done, failed, retried, released, died, cancelled, running;
    int64_t empty; /* of those done: the answer says nothing */
    int64_t prefill_tokens, prefill_ms, decode_tokens, decode_ms, resumed_tokens;
    int64_t load_ms, read_bytes, expert_hits, expert_misses;
    int64_t peak_resident_bytes; /* the most of one */
};
int queue_run_sums(struct queue *q, const struct queue_span *s, struct queue_run_sums *ret,
                   struct error *e);

struct queue_samples {
    struct queue_sample *item; /* [n] in order of elapsed_us */
    size_t n;
    bool more;
};
/* after_us: the elapsed_us of the last one given; -1: from the first. */
int queue_run_samples(struct queue *q, const struct queue_span *s, int64_t after_us,
                      struct queue_samples *ret, struct error *e);
void queue_samples_release(struct queue_samples *s);

/* Attempts of a span that ended in an error, in order of their jobs. */
struct queue_failure {
    int64_t job, attempt;
    int64_t at_us;
    bool final; /* the request's answer is this error; else the job came back */
    struct queue_id request;
    char *custom_id;
    char *error_json;
};
struct queue_failures {
    struct queue_failure *item; /* [n] */
    size_t n;
    bool more; /* go on after the last one's job and attempt */
};
int queue_run_failures(struct queue *q, const struct queue_span *s, int64_t after_job,
                       int64_t after_attempt, struct queue_failures *ret, struct error *e);
void queue_failures_release(struct queue_failures *f);

/*
 * The requests that took a span's time most, each with all its attempts in it. One that has not ended counts
 * until known_us: now, or the last that is known of a run that died.
 */
struct queue_longest {
    struct queue_id request;
    char *custom_id;
    char *batch_name;
    enum queue_state state;
    int64_t attempts;
    int64_t held_us; /* claimed, added up */
    int64_t prefill_tokens, decode_tokens;
};
struct queue_longests {
    struct queue_longest *item; /* [n], the longest first */
    size_t n;
};
int queue_run_longest(struct queue *q, const struct queue_span *s, int64_t known_us, size_t limit,
                      struct queue_longests *ret, struct error *e);
void queue_longests_release(struct queue_longests *l);

/* A run's notes, in order; the key is their number, pass the last to go on. */
int queue_run_notes(struct queue *q, const struct queue_span *s, int64_t after_key,
                    struct queue_events *ret, struct error *e);
/* What else happened then, in order: pauses, resumptions, requests that killed their workers. */
int queue_told(struct queue *q, int64_t from_us, int64_t until_us, struct queue_events *ret,
               struct error *e);
/* Requests that expired or were cancelled in that time. */
int queue_lapsed(struct queue *q, int64_t from_us, int64_t until_us, int64_t *ret_expired,
                 int64_t *ret_cancelled, struct error *e);

/* ---- Waking ----------------------------------------------------------------------------------- */

/* A connection that never writes; polling costs microseconds and touches no disk. */
int queue_watch_open(const char *path, struct queue_watch **ret, struct error *e);
/* *ret_changed: anybody committed since the last call (true at the first). */
int queue_watch_poll(struct queue_watch *w, bool *ret_changed, struct error *e);
void queue_watch_close(struct queue_watch *w);

/* ---- Disk ------------------------------------------------------------------------------------- */

/* Copies the WAL into the database as far as readers allow; never harms anybody. */
int queue_checkpoint(struct queue *q, struct error *e);
/*
 * The reserve: a file beside the database that only takes space. After ERROR_FULL drop it, save what
 * must be saved, wait for space, and put it back. keep gives ERROR_FULL while there is no room for
 * it (and as much again); both are no-ops when there is nothing to do.
 */
int queue_reserve_keep(struct queue *q, struct error *e);
void queue_reserve_drop(struct queue *q);
/* Free bytes for the database; whether the reserve is in place; bytes of the -wal file. */
struct queue_space {
    uint64_t free_bytes;
    uint64_t reserve_bytes; /* 0: dropped */
    uint64_t wal_bytes;
};
int queue_space(struct queue *q, struct queue_space *ret, struct error *e);
/* integrity_check, foreign keys, and the kept counts against the rows. ERROR_FORMAT says what. */
int queue_integrity(struct queue *q, struct error *e);

#endif
