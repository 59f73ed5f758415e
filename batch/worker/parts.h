/*
 * The worker's insides, shared by its files:
 *
 *   worker.c    the loop                          look.c      the queue: pauses, cancellations, drained?
 *   gate.c      may it work                       space.c     a disk that is full
 *   engine.c    open and close                    snapshot.c  what a stop keeps in files
 *   claim.c     from the queue into the engine    record.c    what people read about it afterwards
 *   event.c     what the engine says              night.c     windows, how many jobs
 *   save.c      what is kept of it                guard.c     a GPU that others use, missing memory
 *   service.c   what the machine hears of it      hooks.c     what a user's command is told
 *   pressure.c  memory that gets short
 *
 * A `struct running` is one claimed job from its claim until the queue has its end:
 *
 *   claimed --offer--> admitted --events--> ended --save--> free
 *      |  busy: offered again                 ^
 *      +------------ refused by the engine ---+
 *
 * At every stage a refused write or a cancellation frees it. All memory of the worker that grows
 * hangs off these entries.
 */
#ifndef BATCH_WORKER_PARTS_H
#define BATCH_WORKER_PARTS_H

#include <cjson/cJSON.h>

#include "base/ledger.h"
#include "base/sha256.h"
#include "batch/hook.h"
#include "batch/host/inhibit.h"
#include "batch/host/machine.h"
#include "batch/host/notify.h"
#include "batch/host/pressure.h"
#include "batch/host/watchdog.h"
#include "batch/relief.h"
#include "batch/report.h"
#include "batch/worker/gate.h"
#include "batch/worker/guard.h"
#include "batch/worker/worker.h"
#include "engine/engine.h"
#include "jobs/request.h"

struct running {
    bool used;
    bool prepared;           /* its body and its progress have been read */
    bool admitted;           /* a sequence of the engine */
    bool ended;              /* what `end` says waits to be saved */
    bool begun;              /* a token of this attempt has been saved */
    struct queue_claims own; /* of one */
    struct queue_claim *claim;
    uint64_t reading_bytes; /* reserved for body, JSON, text and ids until the engine has them */
    struct job_request request;
    const struct job_kind *kind; /* these two outlive the request */
    uint64_t seed;
    uint8_t fingerprint[QUEUE_FINGERPRINT_BYTES];
    struct buf prompt; /* with raw: the contents joined */
    struct buf resume; /* int32_t tokens of earlier attempts */
    struct buf tokens; /* int32_t, not yet saved */
    struct sha256 ids; /* of every token of the answer, those of earlier attempts first */
    struct buf text;   /* of them */
    struct buf piece;  /* both as saved */
    struct buf json;   /* of the end */
    struct queue_end end;
    const char *empty; /* why the answer of `end` says nothing; NULL: it does */
    char finish[32];
    struct error failure; /* with an end that is one */
    struct engine_usage usage;
    uint32_t n_decoded, prefilled;
    int64_t load_ms, queued_ms;
    struct pressure_sample before;
};

struct worker {
    const struct worker_options *o;
    struct stop *stop;
    struct queue *queue;
    struct queue_worker *row;
    struct queue_watch *watch;
    struct ledger *ledger;
    struct engine *engine; /* NULL while a gate is shut */
    struct engine_info info;
    struct engine_forecast forecast;
    bool uncertain; /* not everything stays in memory: the forecast is worth telling */
    struct report report;
    struct notify notify;
    struct watchdog watchdog;
    _Atomic uint64_t moved; /* counts whatever is progress, for the watchdog; any thread */
    struct inhibit inhibit;
    int64_t worked_us; /* monotonic: when there was last something to stay awake for */
    int told_percent;  /* of the load */
    char model[256];   /* its name in answers */
    char state[256];   /* as it was told last */
    uint64_t deaths_seen, deaths_noted; /* of death_count() */
    bool loading;
    bool offer;            /* a sequence has left: offer again what was refused room */
    bool full;             /* the disk; see space.c */
    bool killed;           /* begun under a pause that the death of the worker before left */
    bool paused;           /* the queue, when it was last looked at */
    struct gate_view gate; /* what holds */
    struct guard guard;
    uint64_t planned_bytes; /* what the plan takes in all */
    bool fresh;             /* scanned since anything changed and since worker_idle last judged */
    int64_t leaving_us;     /* monotonic: since then all is given back for a gate; 0: it is not */
    uint64_t n_ended;       /* jobs that are done or have failed */
    int64_t load_ms;        /* to be shared out among the first jobs */
    int64_t load_us;        /* the last load took; 0: there was none */
    struct machine_reads reads; /* when the model was loaded */
    struct pressure_place place;
    struct engine_plan plan;
    struct worker_record {
        /* CLOCK_BOOTTIME: the run began, the last sample was taken, the next is due */
        int64_t since_us, last_us, next_us;
        char architecture[64];
        struct pressure_sample before;
    } record;
    struct relief relief;
    uint64_t most_slots_bytes; /* for experts, before any went for relief */
    struct hook *hook;         /* NULL: nobody is told */
    int64_t hook_key;          /* of the last event in the queue's log that it was told of */
    uint64_t hook_ended;       /* n_ended when the queue was last told to be empty */
    const char *hook_paused;   /* by what, as it was told; NULL: not, or told to be over */
    unsigned n_failed_steps;
    /* of the step that is being run, monotonic */
    int64_t slice_since_us, layer_since_us, layer_us;
    uint32_t step_layer;
    struct running *run; /* [n_slots] */
    size_t n_slots, n_used;
    int64_t next_look_us, next_scan_us, next_save_us, next_space_us, next_sample_us,
        next_deaths_us;              /* monotonic */
    struct queue_progress *progress; /* [n_slots] scratch of worker_save */
    struct queue_end *ends;          /* [n_slots] */
    struct running **of;             /* [n_slots] whose row each is */
};

/* engine.c */
int worker_budget(const struct worker_options *o, struct report *r, uint64_t *ret, struct error *e);
int worker_register(struct worker *w, struct error *e); /* plan, row and beat */
int worker_load(struct worker *w, struct error *e);
void worker_unload(struct worker *w);
void worker_tell(struct worker *w, const char *state); /* status for `nocturne status` */
void worker_survived(
    struct worker *w); /* others of its groups, killed for memory: they are noted */

/* night.c */
bool worker_window_closed(const struct worker *w);
/* --max-jobs: how many may be claimed yet; whether that was all. */
uint64_t worker_jobs_left(const struct worker *w);
bool worker_jobs_over(const struct worker *w);

/* service.c */
int worker_service_open(struct worker *w, struct error *e);
void worker_service_close(struct worker *w);
void worker_moved(struct worker *w);      /* something has: the watchdog may be told */
void worker_stay_awake(struct worker *w); /* while there is work, and not longer */
/*
 * hooks.c: what a user's command is told. Nothing of it can fail a run.
 */
int worker_hook_open(struct worker *w, struct error *e);
void worker_hook_failed(struct worker *w, const struct running *r);
void worker_hook_look(struct worker *w); /* what the queue's log has that is new */
void worker_hook_drained(struct worker *w, const struct queue_counts *counts);
void worker_hook_gate(struct worker *w); /* after what holds has changed */
void worker_hook_paused(struct worker *w, const char *by, const char *why); /* by: a literal */
void worker_hook_resumed(struct worker *w);
/* Waits for them a little; without the worker's row, which others may want. */
void worker_hook_close(struct worker *w);

/* claim.c */
int worker_claim(struct worker *w, struct error *e);
int worker_offer(struct worker *w, struct error *e);
void worker_drop(struct worker *w, struct running *r); /* from the engine and from here */

/* event.c */
int worker_step(struct worker *w, struct error *e);
/* What the last step gave and nobody has asked for yet. */
int worker_take_events(struct worker *w, struct error *e);
/* Ends a job with an error: its answer, or the job goes back, by whose fault it is. */
int worker_fail(struct worker *w, struct running *r, const struct error *failure,
                const struct job_refusal *why, struct error *e);

/*
 * snapshot.c. Failures are told and harm nothing: without its file a request computes again.
 */
void worker_keep_state(struct worker *w, const struct running *r); /* before it is given back */
void worker_take_state(struct worker *w, const struct running *r); /* right after its admission */
void worker_forget_state(struct worker *w, const struct running *r);
void worker_sweep_states(struct worker *w); /* files of jobs that will not run again */

/* save.c */
bool worker_save_due(const struct worker *w);
int worker_save(struct worker *w, struct error *e);
/* Saves, gives every job back and forgets it. */
int worker_give_back(struct worker *w, struct error *e);

/* look.c */
int worker_look(struct worker *w, struct error *e);
/* Nothing is claimed and nothing could be: sleeps a little, or finds that a drain is over. */
int worker_idle(struct worker *w, bool *ret_drained, struct error *e);
bool worker_work_left(struct worker *w);
int worker_report(struct worker *w, struct error *e);

/*
 * record.c: the run's rows. Failures are told at debug level and harm nothing.
 */
void worker_record_begin(struct worker *w);
void worker_record_end(struct worker *w, const char *why, int status, const struct error *failure);
/* A row for the plots, when one is due or `now`. */
void worker_record_sample(struct worker *w, bool now);
void worker_record_soon(struct worker *w); /* something has changed that a plot should show */
/* Something people will want to know of this night. Takes `detail`, an object; NULL: nothing to add. */
void worker_note(struct worker *w, const char *kind, cJSON *detail);
void worker_note_text(struct worker *w, const char *kind, const char *text); /* {"text":...} */

/*
 * space.c. Takes a code: a full disk and a busy database become 0 (nothing was changed, and
 * what was to be written still waits here); all else is returned.
 */
int worker_absorb(struct worker *w, int rc, struct error *e);
int worker_wait_for_space(struct worker *w, struct error *e);
/* worker_register; begun on a full disk it waits as one does that finds it full later. */
int worker_register_in_time(struct worker *w, struct error *e);

#endif
