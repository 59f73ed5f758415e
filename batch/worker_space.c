/*
 * A full disk. Nothing was changed by the write that found it, and everything that was to be written
 * is still in the entries, so there is nothing to repair: the reserve file is given up, which makes
 * room for what jobs have got so far; then the worker stands still, says so once, and looks from time
 * to time whether the reserve can be put back. Looking often would only fill the log.
 */
#include "base/clock.h"
#include "batch/worker_parts.h"

#define STOP_POLL_US 100000

int worker_absorb(struct worker *w, int rc, struct error *e)
{
    if (rc == -ERROR_BUSY) {
        report_say(&w->report, "the database is busy, trying again: %s", e ? e->text : "");
        error_clear(e);
        return 0;
    }
    if (rc != -ERROR_FULL)
        return rc;
    if (!w->full) {
        report_say(&w->report, "paused: disk: %s; nothing is lost, it goes on when there is room",
                   e ? e->text : "");
        queue_reserve_drop(w->queue);
        w->full = true;
        w->next_space_us = clock_mono_us() + w->o->space_check_us;
        (void)worker_save(w, NULL);
        worker_tell(w, "paused: disk");
    }
    error_clear(e);
    return 0;
}

int worker_wait_for_space(struct worker *w, struct error *e)
{
    while (w->full && !stop_asked(w->stop)) {
        if (clock_mono_us() < w->next_space_us) {
            clock_sleep_us(STOP_POLL_US);
            continue;
        }
        w->next_space_us = clock_mono_us() + w->o->space_check_us;
        int rc = queue_reserve_keep(w->queue, e);
        if (rc == 0) {
            w->full = false;
            report_say(&w->report, "the disk has room again");
            worker_tell(w, "working");
        } else if (rc != -ERROR_FULL && rc != -ERROR_BUSY) {
            return rc;
        }
        error_clear(e);
    }
    return 0;
}
