#include "batch/worker/worker.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "batch/output.h"
#include "batch/worker/parts.h"

#define EXIT_SOME_FAILED 1
#define EXIT_SIGINT 130
#define IDLE_SLEEP_US 2000

/* ---- The loop --------------------------------------------------------------------------------- */

/* Something is claimed: one event of the engine, and what follows from it. */
static int work_some(struct worker *w, struct error *e)
{
    int rc = 0;
    if (engine_busy(w->engine))
        rc = worker_step(w, e);
    else if (!worker_save_due(w))
        clock_sleep_us(IDLE_SLEEP_US);
    if (rc == 0 && worker_save_due(w))
        rc = worker_save(w, e);
    return rc;
}

static int refuse_pause(struct worker *w, struct error *e)
{
    struct buf reason;
    bool paused = false;
    buf_init(&reason, 4096);
    if (queue_paused(w->queue, &paused, &reason, NULL) == 0 && reason.len > 0 &&
        buf_append(&reason, "", 1) == 0)
        error_set(e, ERROR_PAUSED, "the queue is paused with work left: %s; 'nocturne resume'",
                  reason.ptr);
    else
        error_set(e, ERROR_PAUSED, "the queue is paused with work left; 'nocturne resume'");
    buf_release(&reason);
    return -ERROR_PAUSED;
}

/* One turn. *ret_end: there is nothing more to do. */
static int turn(struct worker *w, bool *ret_end, struct error *e)
{
    int rc = worker_look(w, e);
    if (rc)
        return rc;
    const enum gate_stand stand = w->gate.stand;
    if (stand >= GATE_HOLD && w->gate.lasting && (w->o->drain || w->killed) && w->fresh &&
        worker_work_left(w))
        return refuse_pause(w, e);
    w->killed = w->killed && stand >= GATE_HOLD;
    *ret_end = worker_jobs_over(w);
    if (*ret_end)
        return 0;
    if (stand >= GATE_HOLD || (stand == GATE_FINISH && !w->n_used))
        return worker_idle(w, ret_end, e);
    if (!w->engine)
        rc = worker_load(w, e);
    if (!w->engine)
        return rc; /* abandoned: a gate has closed meanwhile */
    if (rc == 0)
        rc = worker_claim(w, e);
    if (rc == 0)
        rc = worker_offer(w, e);
    if (rc == 0)
        rc = w->n_used ? work_some(w, e) : worker_idle(w, ret_end, e);
    if (rc == 0 && w->n_used && report_due(&w->report))
        rc = worker_report(w, e);
    return rc;
}

static int work(struct worker *w, struct error *e)
{
    bool end = false;
    int rc = 0;
    while (rc == 0 && !end && !stop_asked(w->stop)) {
        worker_record_sample(w, false);
        rc = w->full ? worker_wait_for_space(w, e) : worker_absorb(w, turn(w, &end, e), e);
        if (queue_worker_fenced(w->row))
            stop_fence(w->stop);
        hook_poll(w->hook);
    }
    return rc;
}

/* ---- Beginning and end ------------------------------------------------------------------------ */

static void name_model(struct worker *w)
{
    const char *slash = strrchr(w->o->model_path, '/');
    snprintf(w->model, sizeof(w->model), "%s",
             w->o->alias ? w->o->alias
             : slash     ? slash + 1
                         : w->o->model_path);
    size_t n = strlen(w->model);
    if (!w->o->alias && n > 5 && strcmp(w->model + n - 5, ".gguf") == 0)
        w->model[n - 5] = '\0';
}

/* Without it work can go on; only a full disk would then cost the last second's tokens of a crash. */
static int keep_reserve(struct worker *w, struct error *e)
{
    int rc = queue_reserve_keep(w->queue, e);
    if (rc != -ERROR_FULL && rc != -ERROR_BUSY)
        return rc;
    report_say(&w->report, LOG_WARN, "no reserve for a full disk: %s", e ? e->text : "");
    error_clear(e);
    return 0;
}

static int begin(struct worker *w, struct error *e)
{
    uint64_t budget = 0;
    name_model(w);
    pressure_find(w->o->root, &w->place);
    int rc = worker_service_open(w, e);
    if (rc == 0)
        rc = worker_budget(w->o, &w->report, &budget, e);
    if (rc == 0)
        rc = ledger_new(&w->ledger, budget, e);
    if (rc == 0)
        rc = worker_hook_open(w, e); /* before the row: taking over may be news */
    if (rc == 0)
        rc = worker_register_in_time(w, e);
    if (rc)
        return rc;
    notify_send(&w->notify, "READY=1\nSTATUS=the queue is open");
    worker_record_begin(w);
    rc = queue_watch_open(queue_path(w->queue), &w->watch, e);
    if (rc == 0 && !w->full)
        rc = keep_reserve(w, e);
    if (rc == 0)
        worker_guard_warn(w);
    return rc;
}

/* A step that was suspended for something else ends if that takes seconds: interrupted() says. */
static void finish_step(struct worker *w)
{
    struct engine_step step;
    struct error e = {0};
    engine_step(w->engine, &step);
    if (step.n_rows > 0)
        (void)worker_step(w, &e);
}

static bool was_stopped(const struct worker *w, int rc)
{
    return (stop_signal(w->stop) || stop_over(w->stop)) && (rc == 0 || rc == -ERROR_INTERRUPTED);
}

static int exit_status(const struct worker *w, int rc)
{
    if (was_stopped(w, rc))
        return stop_signal(w->stop) == SIGINT ? EXIT_SIGINT : 0;
    return rc < 0 ? error_describe(-rc)->exit_status : w->report.n_failed ? EXIT_SOME_FAILED : 0;
}

/* Gives everything back, as far as that is still possible; `rc` is how the work ended. */
static void end(struct worker *w, int rc, const struct error *e)
{
    const char *reason = stop_signal(w->stop)  ? "stopped"
                         : stop_over(w->stop)  ? "--until reached"
                         : rc == -ERROR_PAUSED ? "paused"
                         : rc < 0              ? "failed"
                         : worker_jobs_over(w) ? "enough jobs"
                                               : "drained";
    bool fenced = atomic_load(&w->stop->fenced);
    notify_send(&w->notify, "STOPPING=1\nSTATUS=%s", reason);
    if (w->engine && !fenced) {
        if (stop_asked(w->stop)) {
            (void)queue_worker_stopping(w->row, str_of(reason), NULL);
            finish_step(w);
        }
        (void)worker_give_back(w, NULL);
        worker_hook_look(w);
    }
    for (size_t i = 0; i < w->n_slots; i++) {
        if (w->run[i].used)
            worker_drop(w, &w->run[i]);
    }
    worker_record_sample(w, true);
    worker_unload(w);
    worker_guard_close(w);
    worker_record_end(w, reason, exit_status(w, rc), rc < 0 && !was_stopped(w, rc) ? e : NULL);
    queue_worker_close(w->row, str_of(reason));
    w->row = NULL;
    queue_watch_close(w->watch);
    worker_hook_close(w);
    worker_service_close(w);
    ledger_free(w->ledger);
}

static int status_of(struct worker *w, int rc, struct error *e)
{
    if (atomic_load(&w->stop->fenced) || rc == -ERROR_FENCED)
        return error_set(e, ERROR_FENCED,
                         "another worker took over; this one has written nothing since");
    if (was_stopped(w, rc)) {
        const int number = stop_signal(w->stop);
        report_say(&w->report, LOG_INFO, "%s; the next run goes on from here",
                   number == SIGINT ? "stopped by Ctrl-C"
                   : number         ? "stopped by a signal"
                                    : "the time of --until has come");
        return exit_status(w, rc);
    }
    return rc < 0 ? rc : exit_status(w, rc);
}

static int tell_figures(struct worker *w, int status, struct error *e)
{
    cJSON *o = report_json(&w->report);
    cJSON_AddNumberToObject(o, "io_depth", w->info.io_depth);
    cJSON_AddStringToObject(o, "io", w->info.io ? w->info.io : "");
    int rc = output_json(w->o->json, o, true, e);
    return rc < 0 ? rc : status;
}

int worker_run(const struct worker_options *o, struct queue *q, struct stop *stop, struct error *e)
{
    struct worker *w = mem_zalloc(sizeof(*w));
    if (!w)
        return error_set(e, ERROR_NOMEM, "out of memory for the worker");
    w->o = o;
    w->queue = q;
    w->stop = stop;
    w->notify = NOTIFY_NOBODY;
    report_init(&w->report, o->report_us);
    int rc = begin(w, e);
    if (rc == 0)
        rc = work(w, e);
    bool began = w->row != NULL;
    end(w, rc, e);
    if (began)
        report_summary(&w->report);
    rc = status_of(w, rc, e);
    if (began && o->json && rc >= 0)
        rc = tell_figures(w, rc, e);
    mem_free(w);
    return rc;
}
