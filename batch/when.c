#include "batch/when.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"

#define SECOND_US INT64_C(1000000)

static const struct unit {
    const char *name;
    int64_t us;
} units[] = {
    {"", SECOND_US},          {"s", SECOND_US},        {"ms", 1000},
    {"m", 60 * SECOND_US},    {"min", 60 * SECOND_US}, {"h", 3600 * SECOND_US},
    {"d", 86400 * SECOND_US},
};

int when_parse_duration(const char *text, int64_t *ret_us, struct error *e)
{
    char *end = NULL;
    double n = strtod(text, &end);
    bool number = end != text && strspn(text, "0123456789.") == (size_t)(end - text);
    for (size_t i = 0; number && i < ARRAY_LEN(units); i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        double us = n * (double)units[i].us;
        if (us > 1e17)
            return error_set(e, ERROR_USAGE, "'%s' is too long a time", text);
        *ret_us = (int64_t)us;
        return 0;
    }
    return error_set(e, ERROR_USAGE, "'%s' is not a time such as 90s, 10m, 2h or 1d", text);
}

/* Not the 30th of February, which mktime takes for the 2nd of March. */
static bool is_on_the_calendar(const struct tm *tm)
{
    struct tm day = {
        .tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday, .tm_hour = 12};
    return timegm(&day) != -1 && day.tm_mday == tm->tm_mday;
}

static int parse_day(const char *text, int64_t *ret_us, struct error *e)
{
    struct tm tm = {.tm_isdst = -1};
    int used = 0;
    int n = sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                   &tm.tm_hour, &tm.tm_min, &used);
    const char *rest = text + used;
    if (n == 5 && used && rest[0] == ':') {
        int more = 0;
        if (sscanf(rest, ":%2d%n", &tm.tm_sec, &more) == 1)
            rest += more;
    }
    bool utc = strcmp(rest, "Z") == 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    if (n != 5 || !used || (!utc && *rest) || tm.tm_mon < 0 || tm.tm_mon > 11 ||
        !is_on_the_calendar(&tm) || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
        tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return error_set(e, ERROR_USAGE,
                         "'%s' is not a time such as 22:00, +2h or 2026-11-30T22:00", text);
    time_t at = utc ? timegm(&tm) : mktime(&tm);
    *ret_us = (int64_t)at * SECOND_US;
    return 0;
}

int when_parse_past(const char *text, int64_t now_us, int64_t *ret_us, struct error *e)
{
    int64_t next_us = 0;
    if (text[0] == '+')
        return error_set(e, ERROR_USAGE, "'%s' is a time to come", text);
    /* A day of the calendar has 25 hours at most: from before the one that is meant to the last that was. */
    int rc = when_parse(text, now_us - 25 * 3600 * SECOND_US, ret_us, e);
    while (rc == 0 && *ret_us <= now_us) {
        rc = when_parse(text, *ret_us, &next_us, e);
        if (next_us <= *ret_us || next_us > now_us)
            return rc;
        *ret_us = next_us;
    }
    return rc ? rc : error_set(e, ERROR_USAGE, "'%s' is a time to come", text);
}

int when_parse(const char *text, int64_t now_us, int64_t *ret_us, struct error *e)
{
    if (text[0] == '+') {
        int64_t us = 0;
        int rc = when_parse_duration(text + 1, &us, e);
        if (rc == 0)
            *ret_us = now_us + us;
        return rc;
    }
    int hour = 0, minute = 0, used = 0;
    if (sscanf(text, "%2d:%2d%n", &hour, &minute, &used) != 2 || text[used])
        return parse_day(text, ret_us, e);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return error_set(e, ERROR_USAGE, "'%s' is no time of day", text);
    time_t now = (time_t)(now_us / SECOND_US);
    struct tm tm;
    localtime_r(&now, &tm);
    tm.tm_hour = hour;
    tm.tm_min = minute;
    tm.tm_sec = 0;
    tm.tm_isdst = -1;
    time_t at = mktime(&tm);
    if (at <= now) {
        /* The next day by the calendar: with a change of the clock it is not 24 hours away. */
        tm.tm_mday++;
        tm.tm_isdst = -1;
        at = mktime(&tm);
    }
    *ret_us = (int64_t)at * SECOND_US;
    return 0;
}
