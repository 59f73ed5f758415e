/*
 * A full disk. Nothing was changed by the write that found it, and everything that was to be written
 * is still in the entries, so there is nothing to repair: the reserve file is given up, which makes
 * room for what jobs have got so far; then the worker stands still, says so once, and looks from time
 * to time whether the reserve can be put back. Looking often would only fill the log.
 */
#include "base/clock.h"
#include "batch/worker/parts.h"

#define STOP_POLL_US 100000
#define LOOK_EVERY_US 1000000
#define ENOUGH_BYTES (UINT64_C(64) << 20)

int worker_absorb(struct worker *w, int rc, struct error *e)
{
    if (rc == -ERROR_BUSY) {
        worker_moved(w); /* waiting for somebody else's transaction is no fault of this process */
        report_say(&w->report, LOG_WARN, "the database is busy, trying again: %s",
                   e ? e->text : "");
        error_clear(e);
        return 0;
    }
    if (rc != -ERROR_FULL)
        return rc;
    if (!w->full) {
        report_say(&w->report, LOG_WARN,
                   "paused: disk: %s; nothing is lost, it goes on when there is room",
                   e ? e->text : "");
        queue_reserve_drop(w->queue);
        w->full = true;
        w->next_space_us = clock_mono_us() + w->o->space_check_us;
        (void)worker_save(w, NULL);
        worker_note_text(w, "disk_full", e ? e->text : "");
        worker_tell(w, "paused: disk");
        worker_hook_paused(w, "disk", e ? e->text : "");
    }
    error_clear(e);
    return 0;
}

/* Room for the reserve and as much again, or at least for a good while of work. */
static int has_room(struct worker *w, bool *ret, struct error *e)
{
    struct queue_space space = {0};
    int rc = queue_reserve_keep(w->queue, e);
    *ret = rc == 0;
    if (rc != -ERROR_FULL && rc != -ERROR_BUSY)
        return rc;
    error_clear(e);
    rc = queue_space(w->queue, &space, e);
    *ret = rc == 0 && space.free_bytes >= ENOUGH_BYTES;
    return rc;
}

/*
 * A pause, or a window that closes meanwhile, is obeyed as far as what there is to save finds room. All else
 * that has changed in the queue is seen to afterwards, since that takes room, too.
 */
static int look_at_gates(struct worker *w, struct error *e)
{
    const int64_t now_us = clock_mono_us();
    if (now_us < w->next_look_us)
        return 0;
    w->next_look_us = now_us + LOOK_EVERY_US;
    int rc = queue_paused(w->queue, &w->paused, NULL, e);
    if (rc == 0)
        rc = worker_gates(w, e);
    if (rc != -ERROR_FULL && rc != -ERROR_BUSY)
        return rc;
    error_clear(e);
    return 0;
}

/* A gate may have closed meanwhile; then it has been told, and goes on holding. */
static void go_on(struct worker *w)
{
    const bool open = w->gate.stand == GATE_OPEN;
    w->full = false;
    report_say(&w->report, LOG_INFO, "the disk has room again");
    worker_note(w, "disk_room", NULL);
    worker_tell(w, open ? "working" : w->gate.why);
    if (open)
        worker_hook_resumed(w);
}

int worker_wait_for_space(struct worker *w, struct error *e)
{
    while (w->full && !stop_asked(w->stop)) {
        worker_moved(w);
        if (clock_mono_us() < w->next_space_us) {
            hook_poll(w->hook);
            int rc = look_at_gates(w, e);
            if (rc)
                return rc;
            clock_sleep_us(STOP_POLL_US);
            continue;
        }
        w->next_space_us = clock_mono_us() + w->o->space_check_us;
        bool room = false;
        int rc = has_room(w, &room, e);
        if (rc)
            return rc;
        if (room)
            go_on(w);
    }
    return 0;
}

/* The reserve may be room enough for a row; then everybody sees who waits. */
int worker_register_in_time(struct worker *w, struct error *e)
{
    int rc = worker_register(w, e);
    if (rc != -ERROR_FULL || w->row)
        return rc;
    notify_send(&w->notify, "READY=1");
    (void)worker_absorb(w, rc, e);
    rc = worker_register(w, e);
    while (rc == -ERROR_FULL && !w->row) {
        error_clear(e);
        w->full = true;
        rc = worker_wait_for_space(w, e);
        if (rc == 0 && w->full)
            return error_set(e, ERROR_INTERRUPTED, "stopped while the disk was full");
        if (rc == 0)
            rc = worker_register(w, e);
    }
    return rc;
}
