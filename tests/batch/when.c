#include "batch/when.h"

#include <time.h>

#include "tests/test.h"

#define NOW_US INT64_C(1796076000000000) /* 2026-11-30T22:00:00Z */

TEST(when_durations)
{
    struct error e = {0};
    int64_t us = 0;
    CHECK_OK(when_parse_duration("90", &us, &e), &e);
    CHECK_INT(us, 90000000);
    CHECK_OK(when_parse_duration("250ms", &us, &e), &e);
    CHECK_INT(us, 250000);
    CHECK_OK(when_parse_duration("1.5h", &us, &e), &e);
    CHECK_INT(us, 5400000000);
    CHECK_OK(when_parse_duration("2d", &us, &e), &e);
    CHECK_INT(us, 172800000000);
    CHECK_ERROR(when_parse_duration("", &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse_duration("-1s", &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse_duration("5 apples", &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse_duration("inf", &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse_duration("99999999999999d", &us, &e), &e, ERROR_USAGE, "too long");
}

TEST(when_times)
{
    struct error e = {0};
    int64_t us = 0;
    setenv("TZ", "UTC", 1);
    tzset();
    CHECK_OK(when_parse("+2h", NOW_US, &us, &e), &e);
    CHECK_INT(us - NOW_US, 7200000000);
    CHECK_OK(when_parse("2026-11-30T22:00:00Z", NOW_US, &us, &e), &e);
    CHECK_INT(us, NOW_US);
    CHECK_OK(when_parse("2026-11-30 22:00", NOW_US, &us, &e), &e);
    CHECK_INT(us, NOW_US);
    CHECK_OK(when_parse("23:30", NOW_US, &us, &e), &e);
    CHECK_INT(us - NOW_US, 5400000000);
    CHECK_OK(when_parse("22:00", NOW_US, &us, &e), &e); /* that is now, so tomorrow */
    CHECK_INT(us - NOW_US, 86400000000);
    CHECK_ERROR(when_parse("24:00", NOW_US, &us, &e), &e, ERROR_USAGE, "no time of day");
    CHECK_ERROR(when_parse("tomorrow", NOW_US, &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse("2026-13-01T00:00", NOW_US, &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse("2026-02-30T10:00", NOW_US, &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse("2026-03-00T10:00", NOW_US, &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_ERROR(when_parse("2026-11-30T-1:00", NOW_US, &us, &e), &e, ERROR_USAGE, "is not a time");
    CHECK_OK(when_parse("2028-02-29T10:00", NOW_US, &us, &e), &e);
    CHECK_ERROR(when_parse("2026-11-30T22:00+1", NOW_US, &us, &e), &e, ERROR_USAGE, "not a time");
}

/* In the night of the change of the clock, the next 22:00 is 25 hours away. */
TEST(when_counts_days_by_the_calendar)
{
    struct error e = {0};
    int64_t from = 0, to = 0;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    CHECK_OK(when_parse("2026-10-24T22:00", NOW_US, &from, &e), &e);
    CHECK_OK(when_parse("22:00", from, &to, &e), &e);
    CHECK_INT(to - from, INT64_C(25) * 3600 * 1000000);
}

TEST(when_looks_back_by_the_calendar_too)
{
    static const struct {
        const char *now, *text, *then;
    } cases[] = {
        {"2026-11-30T22:30", "22:00", "2026-11-30T22:00"},
        {"2026-11-30T22:00", "22:00", "2026-11-30T22:00"},
        {"2026-11-30T21:59", "22:00", "2026-11-29T22:00"},
        /* The clock went back at 3 in the night to the 25th, and forward at 2 in that to the 29th. */
        {"2026-10-25T21:30", "22:00", "2026-10-24T22:00"},
        {"2026-10-25T22:30", "22:00", "2026-10-25T22:00"},
        {"2026-03-29T22:30", "22:00", "2026-03-29T22:00"},
        {"2026-03-29T21:30", "22:00", "2026-03-28T22:00"},
        {"2026-11-30T22:30", "2026-11-02T05:00", "2026-11-02T05:00"},
    };
    struct error e = {0};
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t now = 0, then = 0, us = 0;
        CHECK_OK(when_parse(cases[i].now, NOW_US, &now, &e), &e);
        CHECK_OK(when_parse(cases[i].then, NOW_US, &then, &e), &e);
        CHECK_OK(when_parse_past(cases[i].text, now, &us, &e), &e);
        CHECK_INT(us, then);
    }
    int64_t us = 0;
    CHECK_ERROR(when_parse_past("+2h", NOW_US, &us, &e), &e, ERROR_USAGE, "to come");
    CHECK_ERROR(when_parse_past("2030-01-01T00:00", NOW_US, &us, &e), &e, ERROR_USAGE, "to come");
    CHECK_ERROR(when_parse_past("sometime", NOW_US, &us, &e), &e, ERROR_USAGE, "is not a time");
}
