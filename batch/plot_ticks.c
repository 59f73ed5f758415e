#include "batch/plot_ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"

#define DAY_S 86400
/* A range narrower than this part of its values would have labels that differ in no digit. */
#define NARROWEST 1e-9
/* Labels with more zeros than that are written with an exponent. */
#define ZEROS_BEFORE_POINT 6
#define ZEROS_AFTER_POINT 5

struct plot_range plot_range_empty(void)
{
    return (struct plot_range){.low = INFINITY, .high = -INFINITY};
}

bool plot_value(double v)
{
    return v >= -PLOT_LIMIT && v <= PLOT_LIMIT;
}

void plot_range_add(struct plot_range *r, double v)
{
    if (!plot_value(v))
        return;
    r->low = v < r->low ? v : r->low;
    r->high = v > r->high ? v : r->high;
}

static void widen(struct plot_range *r, double least)
{
    const double size = fmax(fabs(r->low), fabs(r->high));
    if (r->high - r->low > fmax(size * NARROWEST, 1e-290))
        return;
    const double by = size > 1e-280 ? size * least : 0.5;
    r->low -= by;
    r->high += by;
}

/* ---- Numbers ---------------------------------------------------------------------------------- */

/* The least of 1, 2, 5 x 10^n that is not below `wish`. */
static void nice_step(double wish, int64_t *ret_step, int *ret_exponent)
{
    int exponent = (int)floor(log10(wish));
    const double lead = wish / pow(10, exponent);
    int64_t step = lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10;
    if (step == 10) {
        step = 1;
        exponent++;
    }
    *ret_step = step;
    *ret_exponent = exponent;
}

void plot_ticks_number(struct plot_ticks *t, struct plot_range *r, int wanted)
{
    *t = (struct plot_ticks){.last = -1};
    if (r->low > r->high)
        return;
    widen(r, 0.1);
    nice_step((r->high - r->low) / wanted, &t->step, &t->exponent);
    const double step = (double)t->step * pow(10, t->exponent);
    /* A value that is a tick but for rounding asks for no further one. */
    t->first = (int64_t)floor(r->low / step + 1e-6);
    t->last = (int64_t)ceil(r->high / step - 1e-6);
    r->low = fmin(r->low, plot_tick_value(t, t->first));
    r->high = fmax(r->high, plot_tick_value(t, t->last));
}

/* The digits of v x 10^exponent with the point where it belongs. */
static void put_fixed(int64_t v, int exponent, char out[PLOT_LABEL_BYTES])
{
    const char *sign = v < 0 ? "-" : "";
    const int places = exponent < 0 ? -exponent : 0;
    int64_t power = 1;
    for (int i = 0; i < places; i++)
        power *= 10;
    v = v < 0 ? -v : v;
    for (int i = 0; i < exponent; i++)
        v *= 10;
    if (places == 0)
        snprintf(out, PLOT_LABEL_BYTES, "%s%lld", sign, (long long)v);
    else
        snprintf(out, PLOT_LABEL_BYTES, "%s%lld.%0*lld", sign, (long long)(v / power), places,
                 (long long)(v % power));
}

/* "1.5e12" */
static void put_scientific(int64_t v, int exponent, char out[PLOT_LABEL_BYTES])
{
    char digits[24];
    const char *sign = v < 0 ? "-" : "";
    snprintf(digits, sizeof(digits), "%lld", (long long)(v < 0 ? -v : v));
    size_t n = strlen(digits);
    const int lead = exponent + (int)n - 1;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    snprintf(out, PLOT_LABEL_BYTES, "%s%c%s%.*se%d", sign, digits[0], n > 1 ? "." : "",
             (int)(n - 1), digits + 1, lead);
}

/* ---- Time ------------------------------------------------------------------------------------- */

static int64_t local_offset(double second)
{
    const time_t at = (time_t)second;
    struct tm tm;
    return localtime_r(&at, &tm) ? tm.tm_gmtoff : 0;
}

static int64_t clock_step(double wish)
{
    static const int64_t steps[] = {1,     2,     5,         10,    15,        30,       60,
                                    120,   300,   600,       900,   1800,      3600,     7200,
                                    10800, 21600, DAY_S / 2, DAY_S, 2 * DAY_S, 7 * DAY_S};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if ((double)steps[i] >= wish)
            return steps[i];
    }
    int64_t days;
    int exponent;
    nice_step(wish / DAY_S, &days, &exponent);
    for (int i = 0; i < exponent; i++)
        days *= 10;
    return days * DAY_S;
}

/* Years have four digits, so that calendars can tell them. */
#define TIME_LIMIT 2.5e11

void plot_ticks_time(struct plot_ticks *t, struct plot_range *r, int wanted)
{
    *t = (struct plot_ticks){.time = true, .last = -1};
    if (r->low > r->high)
        return;
    r->low = fmax(fmin(r->low, TIME_LIMIT), -TIME_LIMIT / 10);
    r->high = fmax(fmin(r->high, TIME_LIMIT), r->low);
    if (r->high - r->low < 1)
        r->high = r->low + 1;
    t->step = clock_step((r->high - r->low) / wanted);
    t->offset = local_offset(r->low);
    t->first = (int64_t)ceil((r->low + (double)t->offset) / (double)t->step);
    t->last = (int64_t)floor((r->high + (double)t->offset) / (double)t->step);
}

/* Midnight is the day that begins: "1 Dec". */
static void put_time(const struct plot_ticks *t, double second, char out[PLOT_LABEL_BYTES])
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t at = (time_t)second;
    struct tm tm;
    out[0] = '\0';
    if (!localtime_r(&at, &tm))
        return;
    const bool midnight = tm.tm_hour == 0 && tm.tm_min == 0 && tm.tm_sec == 0;
    if (t->step > 7 * DAY_S)
        snprintf(out, PLOT_LABEL_BYTES, "%d %s %d", tm.tm_mday, months[tm.tm_mon % 12],
                 tm.tm_year + 1900);
    else if (t->step >= DAY_S || midnight)
        snprintf(out, PLOT_LABEL_BYTES, "%d %s", tm.tm_mday, months[tm.tm_mon % 12]);
    else if (t->step >= 60)
        snprintf(out, PLOT_LABEL_BYTES, "%02d:%02d", tm.tm_hour, tm.tm_min);
    else
        snprintf(out, PLOT_LABEL_BYTES, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* ---- Both ------------------------------------------------------------------------------------- */

double plot_tick_value(const struct plot_ticks *t, int64_t i)
{
    if (t->time)
        return (double)(i * t->step - t->offset);
    /* Divided where that is exact: 3 / 10 is the double nearest to 0.3, 3 x 0.1 is not. */
    const double v = (double)(i * t->step);
    return t->exponent < 0 ? v / pow(10, -t->exponent) : v * pow(10, t->exponent);
}

const char *plot_tick_label(const struct plot_ticks *t, int64_t i, char out[PLOT_LABEL_BYTES])
{
    const int64_t v = i * t->step;
    if (t->time)
        put_time(t, plot_tick_value(t, i), out);
    else if (v == 0)
        snprintf(out, PLOT_LABEL_BYTES, "0");
    else if (t->exponent > ZEROS_BEFORE_POINT || t->exponent < -ZEROS_AFTER_POINT)
        put_scientific(v, t->exponent, out);
    else
        put_fixed(v, t->exponent, out);
    return out;
}
