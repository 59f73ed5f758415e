#include "batch/window.h"

#include <time.h>

#include "base/compiler.h"
#include "batch/when.h"
#include "tests/test.h"

#define MINUTE_US INT64_C(60000000)
#define HOUR_US (60 * MINUTE_US)
#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"

static void set_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
}

static int64_t at(const char *text)
{
    struct error e = {0};
    int64_t us = 0;
    CHECK_OK(when_parse(text, 0, &us, &e), &e);
    return us;
}

static struct windows parse(const char *text)
{
    struct windows w = {0};
    struct error e = {0};
    CHECK_OK(windows_add(&w, text, &e), &e);
    return w;
}

/* What holds then, and when that changes; NULL: never. */
static void check_at(const char *windows, const char *now, bool inside, const char *change)
{
    const struct windows w = parse(windows);
    struct window_view view;
    windows_at(&w, at(now), &view);
    if (view.inside != inside || view.change_us != (change ? at(change) : WINDOW_NEVER))
        test_fail(__FILE__, __LINE__, "%s at %s: inside %d, change at %lld, want %d, %s", windows,
                  now, view.inside, (long long)view.change_us / 1000000, inside,
                  change ? change : "never");
}

TEST(window_of_every_night)
{
    set_zone("UTC");
    static const char w[] = "22:00-07:00";
    check_at(w, "2026-11-30T21:59:59", false, "2026-11-30T22:00");
    check_at(w, "2026-11-30T22:00", true, "2026-12-01T07:00");
    check_at(w, "2026-12-01T00:00", true, "2026-12-01T07:00");
    check_at(w, "2026-12-01T06:59:59", true, "2026-12-01T07:00");
    check_at(w, "2026-12-01T07:00", false, "2026-12-01T22:00");
    check_at("9:30-17:05", "2026-12-01T07:00", false, "2026-12-01T09:30");
    check_at(" 09:30 - 17:05 ", "2026-12-01T17:04", true, "2026-12-01T17:05");
}

/* A window belongs to the day it begins on. */
TEST(window_of_weekdays)
{
    set_zone("UTC"); /* 2026-11-30 is a Monday */
    static const char w[] = "mon-fri 22:00-07:00";
    check_at(w, "2026-11-30T06:00", false, "2026-11-30T22:00"); /* Sunday has none */
    check_at(w, "2026-12-05T06:00", true, "2026-12-05T07:00");  /* Friday's */
    check_at(w, "2026-12-05T22:00", false, "2026-12-07T22:00");
    check_at("Friday-Mon 01:00-02:00", "2026-12-01T01:30", false, "2026-12-04T01:00");
    check_at("sun 23:00-01:00", "2026-12-07T00:30", true, "2026-12-07T01:00");
    check_at("wed 12:00-13:00", "2026-12-02T13:00", false, "2026-12-09T12:00");
}

/* Days wait for their hours; windows that meet or overlap are one. */
TEST(window_lists)
{
    set_zone("UTC");
    static const char w[] = "mon-fri 22:00-07:00, sat,sun 00:00-24:00";
    check_at(w, "2026-12-04T21:00", false, "2026-12-04T22:00");
    check_at(w, "2026-12-04T22:00", true, "2026-12-07T00:00"); /* through the weekend */
    check_at("12:00-13:00,12:30-14:00", "2026-12-04T12:10", true, "2026-12-04T14:00");
    check_at("mon 01:00-02:00,tue,thu 03:00-04:00", "2026-12-01T04:00", false, "2026-12-03T03:00");
    check_at("00:00-24:00", "2026-12-04T12:10", true, NULL);
    check_at("00:00-12:00,12:00-24:00", "2026-12-04T12:10", true, NULL);
    struct windows two = parse("01:00-02:00");
    struct error e = {0};
    struct window_view view;
    CHECK_OK(windows_add(&two, "03:00-04:00", &e), &e);
    windows_at(&two, at("2026-12-04T02:30"), &view);
    CHECK_INT(view.change_us, at("2026-12-04T03:00"));
    two.n = 0;
    windows_at(&two, at("2026-12-04T02:30"), &view);
    CHECK(view.inside && view.change_us == WINDOW_NEVER);
}

TEST(window_the_night_the_clock_goes_back_lasts_an_hour_longer)
{
    struct window_view view;
    set_zone(BERLIN); /* 2026-10-25: 03:00 becomes 02:00 at 01:00Z */
    const struct windows w = parse("22:00-07:00");
    const int64_t begin_us = at("2026-10-24T22:00");
    windows_at(&w, begin_us, &view);
    CHECK(view.inside);
    CHECK_INT(view.change_us - begin_us, 10 * HOUR_US);
    windows_at(&w, at("2026-10-25T05:59:59Z"), &view);
    CHECK(view.inside);
    windows_at(&w, at("2026-10-25T06:00Z"), &view);
    CHECK(!view.inside);
    CHECK_INT(view.change_us, at("2026-10-25T21:00Z"));
    /* What the clock shows twice is the first of the two, for opening and closing alike. */
    check_at("02:30-06:00", "2026-10-25T00:29:59Z", false, "2026-10-25T00:30Z");
    check_at("02:30-06:00", "2026-10-25T00:30:00Z", true, "2026-10-25T05:00Z");
    check_at("22:00-02:30", "2026-10-25T00:29:59Z", true, "2026-10-25T00:30Z");
    check_at("22:00-02:30", "2026-10-25T01:15:00Z", false, "2026-10-25T21:00Z");
    check_at("02:00-03:00", "2026-10-25T00:00Z", true, "2026-10-25T02:00Z"); /* two hours */
}

TEST(window_the_night_the_clock_goes_forward_opens_at_the_jump)
{
    struct window_view view;
    set_zone(BERLIN); /* 2026-03-29: 02:00 becomes 03:00 at 01:00Z */
    const struct windows w = parse("22:00-07:00");
    const int64_t begin_us = at("2026-03-28T22:00");
    windows_at(&w, begin_us, &view);
    CHECK(view.inside);
    CHECK_INT(view.change_us - begin_us, 8 * HOUR_US);
    check_at("02:30-06:00", "2026-03-29T00:59:59Z", false, "2026-03-29T01:00Z");
    check_at("02:30-06:00", "2026-03-29T01:00Z", true, "2026-03-29T04:00Z");
    check_at("22:00-02:30", "2026-03-29T00:59:59Z", true, "2026-03-29T01:00Z");
    check_at("22:00-02:30", "2026-03-29T01:00Z", false, "2026-03-29T20:00Z");
    /* Both of its ends are the jump: that day has none. */
    check_at("02:15-02:45", "2026-03-28T12:00Z", false, "2026-03-30T00:15Z");
    check_at("00:00-24:00", "2026-03-28T12:00Z", true, NULL);
}

/* Zones with other rules: the change at midnight, half an hour of it, a day that was left out. */
TEST(window_in_other_zones)
{
    set_zone("<-03>3<-02>,M10.3.0/0,M2.3.0/0"); /* midnight does not exist, or comes twice */
    check_at("00:00-05:00", "2026-10-18T02:59:59Z", false, "2026-10-18T03:00Z");
    check_at("00:00-05:00", "2026-10-18T03:00Z", true, "2026-10-18T07:00Z");
    check_at("sat 20:00-24:00", "2026-02-15T01:59:59Z", true, "2026-02-15T03:00Z");
    set_zone("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0");
    check_at("01:45-02:15", "2026-10-03T15:29:59Z", true, "2026-10-03T15:30Z");
    set_zone("Pacific/Apia"); /* 2011-12-30 was none of its days */
    if (timezone != 0)
        check_at("thu 22:00-07:00", "2011-12-30T09:00Z", true, "2011-12-30T10:00Z");
}

/* The longest stretch of work over a whole year of nights is what a calendar says. */
TEST(window_nights_of_a_year_add_up)
{
    set_zone(BERLIN);
    const struct windows w = parse("22:00-07:00");
    int64_t now_us = at("2026-01-01T12:00"), inside_us = 0;
    const int64_t end_us = at("2027-01-01T12:00");
    int n = 0, longer = 0, shorter = 0;
    for (struct window_view view; now_us < end_us; now_us = view.change_us) {
        windows_at(&w, now_us, &view);
        if (!view.inside)
            continue;
        n++;
        inside_us += view.change_us - now_us;
        longer += view.change_us - now_us == 10 * HOUR_US;
        shorter += view.change_us - now_us == 8 * HOUR_US;
    }
    CHECK_INT(n, 365);
    CHECK_INT(longer, 1);
    CHECK_INT(shorter, 1);
    CHECK_INT(inside_us, 365 * 9 * HOUR_US);
    CHECK_INT(windows_after(&w, at("2026-01-01T12:00"), inside_us), at("2027-01-01T07:00"));
}

TEST(window_time_of_work)
{
    set_zone("UTC");
    const struct windows w = parse("22:00-07:00");
    const struct windows always = {0};
    CHECK_INT(windows_after(&always, 5, 7), 12);
    CHECK_INT(windows_after(&w, at("2026-12-01T12:00"), HOUR_US), at("2026-12-01T23:00"));
    CHECK_INT(windows_after(&w, at("2026-12-01T23:00"), 8 * HOUR_US), at("2026-12-02T07:00"));
    CHECK_INT(windows_after(&w, at("2026-12-01T23:00"), 9 * HOUR_US), at("2026-12-02T23:00"));
    CHECK_INT(windows_after(&w, at("2026-12-01T23:00"), INT64_MAX / 2), WINDOW_NEVER);
}

TEST(window_lists_are_printed_so_that_they_can_be_read)
{
    static const char *const texts[] = {"22:00-07:00", "sun,sat 00:00-24:00",
                                        "22:00-07:00,mon 01:05-02:00,tue,wed,thu 12:00-00:00"};
    char out[WINDOWS_TEXT_BYTES];
    struct windows all = {.n = WINDOWS_MAX};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct windows w = parse(texts[i]);
        windows_print(&w, out, sizeof(out));
        if (i < 2)
            CHECK_STR(out, texts[i]);
        const struct windows again = parse(out);
        CHECK(memcmp(&again, &w, sizeof(w)) == 0);
    }
    for (size_t i = 0; i < WINDOWS_MAX; i++)
        all.of[i] = (struct window){.days = 0x3F, .begin_min = 1200, .end_min = 1201};
    windows_print(&all, out, sizeof(out));
    CHECK(strlen(out) < sizeof(out) - 1);
    CHECK_INT(parse(out).n, WINDOWS_MAX);
}

TEST(window_nonsense_is_named)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "'' is no window"},
        {"22:00", "'22:00' is no window"},
        {"22:00-", "'22:00-' is no window"},
        {"22-07", "'22-07' is no window"},
        {"22:00-25:00", "'22:00-25:00' is no window"},
        {"24:00-07:00", "is no window"},
        {"22:60-07:00", "is no window"},
        {"22:00-24:01", "is no window"},
        {"22:00--1:00", "is no window"},
        {"22:00-07:00x", "is no window"},
        {"22:00-07:00,", "'' is no window"},
        {"22:00-07:00 mon", "is no window"},
        {"22:00-22:00", "is empty; a whole day is 00:00-24:00"},
        {"mo 22:00-07:00", "'mo 22:00-07:00' names no days"},
        {"mondays 22:00-07:00", "names no days"},
        {"mon-funday 22:00-07:00", "names no days"},
        {"mon- 22:00-07:00", "names no days"},
        {"mon,tue", "'tue' names days without hours"},
        {"22:00-07:00,sat", "'sat' names days without hours"},
        {"22:00-07:00 and a good deal of other text that nobody would ever write there",
         "no window"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct windows w = {0};
        struct error e = {0};
        CHECK_ERROR(windows_add(&w, bad[i].text, &e), &e, ERROR_USAGE, bad[i].says);
    }
    struct windows w = {0};
    struct error e = {0};
    for (int i = 0; i < WINDOWS_MAX; i++)
        CHECK_OK(windows_add(&w, "22:00-07:00", &e), &e);
    CHECK_ERROR(windows_add(&w, "22:00-07:00", &e), &e, ERROR_USAGE, "more than 32 windows");
}
