/*
 * Windows: the hours in which the worker may work, as people write them.
 *
 * "22:00-07:00", "mon-fri 22:00-07:00", "sat,sun 00:00-24:00"; several with commas between. A window
 * belongs to the day it begins on: "fri 22:00-07:00" ends on Saturday. Windows that meet are one.
 *
 * Hours are those of the local clock, read off the calendar day by day and never by adding 24 hours:
 *
 *   night the clock goes back       22:00-07:00 lasts an hour longer; a time that is shown twice is the
 *                                   first of the two, for opening and closing alike
 *   night the clock goes forward    it lasts an hour less; a time that is never shown is the moment of
 *                                   the jump, so 02:30-06:00 opens at what is 03:00 then, and 02:15-02:45
 *                                   does not open that day
 *
 * Pure but for the time zone (TZ, as localtime_r has it). Owns nothing; any thread. Nothing is
 * remembered: being inside is all that counts, so a window that was missed never opens late.
 */
#ifndef BATCH_WINDOW_H
#define BATCH_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "batch/options.h"

#define WINDOWS_MAX 32
#define WINDOW_NEVER INT64_MAX

struct windows {
    struct window {
        uint8_t days; /* bit 0: Sunday, as tm_wday counts */
        int begin_min,
            end_min; /* after the midnight that begins its day; end may be of the next day */
    } of[WINDOWS_MAX];
    size_t n; /* 0: always open */
};

/* Those of --window or, without any, of the environment or the configuration file. */
int windows_of_options(struct windows *ret, const struct options *o, struct error *e);
/* Adds what the text says; ERROR_USAGE names the part that makes no sense. */
int windows_add(struct windows *w, const char *text, struct error *e);

/* So that windows_add reads the same; days are named one by one. */
#define WINDOWS_TEXT_BYTES (WINDOWS_MAX * 48)
void windows_print(const struct windows *w, char *out, size_t size);

struct window_view {
    bool inside;
    int64_t change_us; /* wall time: when it closes, or when the next one opens; or WINDOW_NEVER */
};
void windows_at(const struct windows *w, int64_t wall_us, struct window_view *ret);

/* When so much time inside of windows has passed; WINDOW_NEVER beyond a year. */
int64_t windows_after(const struct windows *w, int64_t wall_us, int64_t work_us);

#endif
