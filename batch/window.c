#include "batch/window.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/compiler.h"
#include "base/str.h"

#define SECOND_US INT64_C(1000000)
#define DAY_S INT64_C(86400)
#define DAY_MIN (24 * 60)
#define EVERY_DAY 0x7Fu
/* A window of any day begins within a week; one that closes later than that is taken to be open always. */
#define DAYS_AHEAD 9
/* Openings and closings before windows_after gives up: a year of nights. */
#define CHANGES_AHEAD 800

/* ---- Reading them ----------------------------------------------------------------------------- */

#define PART_BYTES 64

static int bad_part(const char *part, const char *why, struct error *e)
{
    return error_set(e, ERROR_USAGE, "'%.100s' %s", part, why);
}

/* "mon" to "monday"; -1: no day. */
static int day_of(const char *name, size_t len)
{
    static const char *const days[] = {"sunday",   "monday", "tuesday", "wednesday",
                                       "thursday", "friday", "saturday"};
    for (size_t i = 0; i < ARRAY_LEN(days); i++) {
        if (len >= 3 && len <= strlen(days[i]) && strncasecmp(name, days[i], len) == 0)
            return (int)i;
    }
    return -1;
}

/* "mon" or "fri-mon", which the part begins with; *hours is what follows. */
static int take_days(const char *part, uint8_t *days, const char **hours, struct error *e)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *at = part + strspn(part, letters);
    const int first = day_of(part, (size_t)(at - part));
    int last = first;
    if (*at == '-') {
        const char *second = at + 1;
        at = second + strspn(second, letters);
        last = day_of(second, (size_t)(at - second));
    }
    if (first < 0 || last < 0)
        return bad_part(part, "names no days of the week such as sat or mon-fri", e);
    for (int day = first; day != last; day = (day + 1) % 7)
        *days |= (uint8_t)(1u << day);
    *days |= (uint8_t)(1u << last);
    *hours = at + strspn(at, " ");
    return 0;
}

/* "22:00"; true: *at stands behind it. */
static bool take_clock(const char **at, int *ret_min)
{
    int hour = 0, minute = 0, used = 0;
    if (sscanf(*at, "%2d:%2d%n", &hour, &minute, &used) != 2)
        return false;
    *at += used + (int)strspn(*at + used, " ");
    *ret_min = hour * 60 + minute;
    return hour >= 0 && minute >= 0 && minute < 60 && *ret_min <= DAY_MIN;
}

static int take_hours(const char *part, struct window *w, struct error *e)
{
    const char *at = part;
    bool good = take_clock(&at, &w->begin_min) && *at == '-';
    if (good) {
        at += 1 + strspn(at + 1, " ");
        good = take_clock(&at, &w->end_min) && !*at && w->begin_min < DAY_MIN;
    }
    if (!good)
        return bad_part(part, "is no window such as 22:00-07:00", e);
    if (w->begin_min == w->end_min)
        return bad_part(part, "is empty; a whole day is 00:00-24:00", e);
    if (w->end_min < w->begin_min)
        w->end_min += DAY_MIN;
    return 0;
}

static int add(struct windows *w, const char *hours, uint8_t days, struct error *e)
{
    struct window one = {.days = days ? days : EVERY_DAY};
    int rc = take_hours(hours, &one, e);
    if (rc)
        return rc;
    if (w->n == WINDOWS_MAX)
        return error_set(e, ERROR_USAGE, "more than %d windows", WINDOWS_MAX);
    w->of[w->n++] = one;
    return 0;
}

int windows_add(struct windows *w, const char *text, struct error *e)
{
    uint8_t days = 0; /* named, and waiting for their hours */
    char word[PART_BYTES], *part = word;
    for (const char *list = text; list;) {
        if (!str_take_word(&list, word, sizeof(word)))
            return bad_part(word, "is no window such as mon-fri 22:00-07:00", e);
        part = word + strspn(word, " ");
        for (size_t n = strlen(part); n > 0 && part[n - 1] == ' '; n--)
            part[n - 1] = '\0';
        const char *hours = part;
        int rc = isalpha((unsigned char)*part) ? take_days(part, &days, &hours, e) : 0;
        if (rc == 0 && (*hours || hours == part)) {
            rc = add(w, hours, days, e);
            days = 0;
        }
        if (rc)
            return rc;
    }
    return days ? bad_part(part, "names days without hours; 'sat,sun 00:00-24:00' has both", e) : 0;
}

void windows_print(const struct windows *w, char *out, size_t size)
{
    static const char *const days[] = {"sun,", "mon,", "tue,", "wed,", "thu,", "fri,", "sat,"};
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < w->n; i++) {
        const struct window *x = &w->of[i];
        char names[ARRAY_LEN(days) * 4 + 1] = "";
        size_t used = 0;
        for (size_t d = 0; d < ARRAY_LEN(days) && x->days != EVERY_DAY; d++)
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s",
                                     x->days & 1u << d ? days[d] : "");
        if (used > 0)
            names[used - 1] = ' '; /* where the last comma is */
        const int end = x->end_min > DAY_MIN ? x->end_min - DAY_MIN : x->end_min;
        n += (size_t)snprintf(out + n, n < size ? size - n : 0, "%s%s%02d:%02d-%02d:%02d",
                              i ? "," : "", names, x->begin_min / 60, x->begin_min % 60, end / 60,
                              end % 60);
    }
}

/* ---- The clock -------------------------------------------------------------------------------- */

/* How far the local clock is ahead of UTC then. */
static int64_t offset_s(int64_t at_s)
{
    const time_t at = (time_t)at_s;
    struct tm tm;
    return localtime_r(&at, &tm) ? tm.tm_gmtoff : 0;
}

/* The first moment after `from_s` at which the offset is not what it is at `from_s`; by `to_s` it is not. */
static int64_t jump_s(int64_t from_s, int64_t to_s)
{
    const int64_t before_s = offset_s(from_s);
    while (to_s - from_s > 1) {
        const int64_t middle_s = from_s + (to_s - from_s) / 2;
        if (offset_s(middle_s) == before_s)
            from_s = middle_s;
        else
            to_s = middle_s;
    }
    return to_s;
}

/*
 * The first moment at which the local clock shows that time or, where it skips it, a later one.
 * `shown_s` is what it shows, counted as if it were UTC.
 */
static int64_t first_shown_s(int64_t shown_s)
{
    const int64_t before_s = offset_s(shown_s - DAY_S), after_s = offset_s(shown_s + DAY_S);
    const int64_t early_s = shown_s - before_s, late_s = shown_s - after_s;
    if (offset_s(early_s) == before_s)
        return early_s;
    if (offset_s(late_s) == after_s)
        return late_s;
    return jump_s(late_s, early_s);
}

/* ---- Where a time is -------------------------------------------------------------------------- */

/* The window of that day, counted from 1970 by the calendar; false: it does not open then. */
static bool span_of(const struct window *w, int64_t day, int64_t *ret_begin_us, int64_t *ret_end_us)
{
    const int weekday = (int)(((day + 4) % 7 + 7) % 7); /* 1970 began on a Thursday */
    if (!(w->days & 1u << weekday))
        return false;
    *ret_begin_us = first_shown_s(day * DAY_S + w->begin_min * 60) * SECOND_US;
    *ret_end_us = first_shown_s(day * DAY_S + w->end_min * 60) * SECOND_US;
    return *ret_begin_us < *ret_end_us;
}

/* The latest end of a window that is open then, the earliest begin of one that opens later. */
static void look(const struct windows *w, int64_t day, int64_t wall_us, int64_t *ret_end_us,
                 int64_t *ret_begin_us)
{
    *ret_end_us = wall_us;
    *ret_begin_us = WINDOW_NEVER;
    for (int64_t d = day - 2; d <= day + DAYS_AHEAD; d++) {
        for (size_t i = 0; i < w->n; i++) {
            int64_t begin_us = 0, end_us = 0;
            if (!span_of(&w->of[i], d, &begin_us, &end_us))
                continue;
            if (begin_us > wall_us)
                *ret_begin_us = MIN_OF(*ret_begin_us, begin_us);
            else if (end_us > *ret_end_us)
                *ret_end_us = end_us;
        }
    }
}

static int64_t floor_s(int64_t us)
{
    return us / SECOND_US - (us % SECOND_US < 0);
}

/* The local day of a time, counted from 1970 by the calendar. */
static int64_t day_at(int64_t wall_us)
{
    const int64_t shown_s = floor_s(wall_us) + offset_s(floor_s(wall_us));
    return shown_s / DAY_S - (shown_s % DAY_S < 0);
}

void windows_at(const struct windows *w, int64_t wall_us, struct window_view *ret)
{
    int64_t end_us = wall_us, begin_us = WINDOW_NEVER;
    const int64_t far_us = wall_us + (DAYS_AHEAD - 1) * DAY_S * SECOND_US;
    *ret = (struct window_view){.inside = true, .change_us = WINDOW_NEVER};
    if (w->n == 0)
        return;
    for (int64_t at_us = wall_us; at_us < far_us; at_us = end_us) {
        look(w, day_at(at_us), at_us, &end_us, &begin_us);
        if (end_us == at_us) { /* nothing is open then */
            ret->inside = at_us > wall_us;
            ret->change_us = ret->inside ? at_us : begin_us;
            return;
        }
    }
}

int64_t windows_after(const struct windows *w, int64_t wall_us, int64_t work_us)
{
    struct window_view view;
    for (int i = 0; i < CHANGES_AHEAD; i++) {
        windows_at(w, wall_us, &view);
        const int64_t left_us = view.change_us == WINDOW_NEVER ? work_us : view.change_us - wall_us;
        if (view.inside && left_us >= work_us)
            return wall_us + work_us;
        if (view.change_us == WINDOW_NEVER)
            return WINDOW_NEVER;
        work_us -= view.inside ? left_us : 0;
        wall_us = view.change_us;
    }
    return WINDOW_NEVER;
}

int windows_of_options(struct windows *ret, const struct options *o, struct error *e)
{
    const char *text = option_item(o, OPTION_WORK_WINDOW, 0);
    int rc = 0;
    if (!text && option_given(o, OPTION_WORK_WINDOW))
        rc = windows_add(ret, option_text(o, OPTION_WORK_WINDOW), e);
    for (size_t i = 1; rc == 0 && text; i++) {
        rc = windows_add(ret, text, e);
        text = option_item(o, OPTION_WORK_WINDOW, i);
    }
    return rc ? error_wrap(e, "--window") : 0;
}
