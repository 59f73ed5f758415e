/* How long and how much: windows, and the most jobs of a run. */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "batch/worker/parts.h"

bool worker_window_closed(const struct worker *w)
{
    struct window_view view;
    windows_at(&w->o->windows, clock_wall_us(), &view);
    return !view.inside;
}

/* Whether a load that takes as long as the last one would only be over when the window is. */
static bool too_late_to_load(const struct worker *w, int64_t now_us, int64_t closes_us)
{
    return !w->engine && w->load_us > 0 && closes_us - now_us < w->load_us;
}

/* "Mon 22:00": what is said must not change while it holds, or it would be said again and again. */
static void name_time(int64_t wall_us, char *out, size_t size)
{
    const time_t at = (time_t)(wall_us / 1000000);
    struct tm tm;
    if (!localtime_r(&at, &tm) || strftime(out, size, "%a %H:%M", &tm) == 0)
        snprintf(out, size, "?");
}

int gate_window(struct worker *w, struct gate_view *ret, struct error *e)
{
    (void)e;
    struct window_view view;
    char opens[32];
    const int64_t now_us = clock_wall_us();
    windows_at(&w->o->windows, now_us, &view);
    const bool late = view.inside && too_late_to_load(w, now_us, view.change_us);
    if (view.inside && !late)
        return 0;
    if (late) /* the one after it */
        windows_at(&w->o->windows, view.change_us, &view);
    ret->stand = w->o->keep_loaded ? GATE_HOLD : GATE_SHUT;
    ret->opens_us = view.change_us;
    name_time(view.change_us, opens, sizeof(opens));
    snprintf(ret->why, sizeof(ret->why), "%swaiting for the window, %s",
             late ? "it closes before the model would be loaded; " : "", opens);
    return 0;
}

uint64_t worker_jobs_left(const struct worker *w)
{
    const uint64_t begun = w->n_ended + w->n_used;
    return !w->o->max_jobs ? UINT64_MAX : begun < w->o->max_jobs ? w->o->max_jobs - begun : 0;
}

bool worker_jobs_over(const struct worker *w)
{
    return w->o->max_jobs && w->n_ended >= w->o->max_jobs;
}
