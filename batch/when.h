/*
 * Times and durations as people write them. Pure but for the clock and time zone they are given.
 */
#ifndef BATCH_WHEN_H
#define BATCH_WHEN_H

#include <stdint.h>

#include "base/error.h"

/* "90", "90s", "1.5h", "2d", "250ms": microseconds. Seconds without a unit. */
int when_parse_duration(const char *text, int64_t *ret_us, struct error *e);
/*
 * "2026-11-30T22:00" and "2026-11-30 22:00:00" in local time, either with Z in UTC; "22:00", the next
 * time the local clock shows it; "+2h", from now. Wall time in microseconds.
 */
int when_parse(const char *text, int64_t now_us, int64_t *ret_us, struct error *e);
/* The same looking back: "22:00" is the last time the clock showed it, what is to come is refused. */
int when_parse_past(const char *text, int64_t now_us, int64_t *ret_us, struct error *e);

#endif
