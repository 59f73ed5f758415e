/* Plots: well-formed whatever is in them, ticks where people want them, gaps where no value is. */
#include "batch/plot.h"

#include <stdlib.h>
#include <time.h>

#include "batch/markup.h"
#include "batch/plot_ticks.h"
#include "tests/batch/well_formed.h"
#include "tests/test.h"

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = strstr(text, what); p; p = strstr(p + 1, what))
        n++;
    return n;
}

/* The text of the plot, which was found well-formed; free() it. */
static char *draw(const struct plot *p)
{
    struct error e = {0};
    struct buf out;
    buf_init(&out, 1 << 20);
    CHECK_OK(plot_svg(&out, p, &e), &e);
    CHECK(well_formed(out.ptr));
    CHECK(!strstr(out.ptr, "nan") && !strstr(out.ptr, "inf") && !strstr(out.ptr, "<script"));
    char *text = strdup(out.ptr);
    CHECK(text);
    buf_release(&out);
    return text;
}

static struct plot of(const struct plot_series *s, size_t n)
{
    return (struct plot){.title = "T",
                         .x = {.label = "x"},
                         .y = {.label = "y", .zero = true},
                         .series = s,
                         .n_series = n};
}

static void check_ticks(const struct plot_ticks *t, const char *labels)
{
    char all[400] = "", label[PLOT_LABEL_BYTES];
    size_t at = 0;
    for (int64_t i = t->first; i <= t->last; i++)
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", at > 0 ? " " : "",
                               plot_tick_label(t, i, label));
    CHECK_STR(all, labels);
}

static void check_labels(double low, double high, int wanted, const char *labels)
{
    struct plot_ticks t;
    struct plot_range r = {low, high};
    plot_ticks_number(&t, &r, wanted);
    check_ticks(&t, labels);
    CHECK(r.low <= low && r.high >= high);
}

TEST(plot_ticks_are_1_2_5_and_exact)
{
    check_labels(0, 1, 5, "0 0.2 0.4 0.6 0.8 1.0");
    check_labels(0, 0.3, 3, "0 0.1 0.2 0.3");
    check_labels(60, 92, 5, "60 70 80 90 100");
    check_labels(-3, 7, 5, "-4 -2 0 2 4 6 8");
    check_labels(0, 4.1e9, 5, "0 1e9 2e9 3e9 4e9 5e9");
    check_labels(0, 1.4e7, 3, "0 5000000 10000000 15000000");
    check_labels(0, 3e-9, 3, "0 1e-9 2e-9 3e-9");
    check_labels(1e12, 1.25e12, 5, "1e12 1.05e12 1.1e12 1.15e12 1.2e12 1.25e12");
    check_labels(0.0001, 0.0002, 2, "0.00010 0.00015 0.00020");
}

TEST(plot_ticks_survive_ranges_without_width_and_huge_ones)
{
    static const double ends[][2] = {{0, 0},           {5, 5},          {-7e15, -7e15},
                                     {1e15, 1e15 + 1}, {-1e300, 1e300}, {1e-300, 2e-300},
                                     {0, 1e300},       {1e300, 1e300}};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct plot_ticks t;
        struct plot_range r = {ends[i][0], ends[i][1]};
        char label[PLOT_LABEL_BYTES];
        plot_ticks_number(&t, &r, 6);
        CHECK(r.high > r.low && t.last > t.first && t.last - t.first < 20);
        for (int64_t k = t.first; k <= t.last; k++)
            CHECK(strlen(plot_tick_label(&t, k, label)) > 0);
    }
}

static void check_times(double low, double high, int wanted, const char *labels)
{
    struct plot_ticks t;
    struct plot_range r = {low, high};
    plot_ticks_time(&t, &r, wanted);
    check_ticks(&t, labels);
}

TEST(plot_ticks_of_time_are_whole_local_hours)
{
    const double evening = 1796076000; /* 2026-11-30 22:00:00 UTC */
    setenv("TZ", "UTC0", 1);
    tzset();
    check_times(evening, evening + 9 * 3600, 5, "22:00 1 Dec 02:00 04:00 06:00");
    check_times(evening - 20, evening + 40, 3, "22:00:00 22:00:30");
    check_times(evening, evening + 3 * 86400, 3, "1 Dec 2 Dec 3 Dec");
    setenv("TZ", "<+0530>-5:30", 1);
    tzset();
    check_times(evening, evening + 4 * 3600, 4, "04:00 05:00 06:00 07:00");
    check_times(evening, evening + 300.0 * 86400, 2, "13 Dec 2026 1 Jul 2027");
}

TEST(plot_draws_lines_steps_points_and_bars)
{
    const double x[] = {1, 2, 3}, y[] = {10, 20, 15}, bar[] = {1, 0, 2};
    const struct plot_series s[] = {
        {.name = "line", .mark = PLOT_LINE, .n = 3, .x = x, .y = y},
        {.name = "step", .mark = PLOT_STEP, .n = 3, .x = x, .y = y},
        {.name = "points", .mark = PLOT_LINE_POINTS, .n = 3, .x = x, .y = y, .error = bar},
    };
    const struct plot p = of(s, 3);
    char *text = draw(&p);
    CHECK_INT(count(text, "<circle"), 3 + 1); /* one is the legend's */
    CHECK(strstr(text, "plot-line plot-0") && strstr(text, "plot-error plot-2"));
    CHECK(strstr(text, ">line<") && strstr(text, ">step<") && strstr(text, ">points<"));
    /* Two bars of one stroke and two caps. */
    const char *bars = strstr(text, "plot-error plot-2");
    char *end = strchr(bars, '>');
    *end = '\0';
    CHECK_INT(count(bars, "M"), 6);
    free(text);
}

TEST(plot_leaves_gaps_where_no_number_is)
{
    const double x[] = {0, 1, 2, 3, INFINITY}, y[] = {1, 2, NAN, 4, 5},
                 bar[] = {NAN, 1, 1, INFINITY, 1};
    const struct plot_series s = {
        .name = "s", .mark = PLOT_LINE_POINTS, .n = 5, .x = x, .y = y, .error = bar};
    const struct plot p = of(&s, 1);
    char *text = draw(&p);
    CHECK_INT(count(text, "<circle"), 3 + 1);
    CHECK_INT(count(text, "h0"), 1);
    free(text);
}

/* Rates that vary more than they are: their bars make no room for negative ones. */
TEST(plot_ends_bars_at_zero)
{
    const double x[] = {1, 2}, y[] = {10, 20}, bar[] = {50, 1};
    const struct plot_series s = {.mark = PLOT_POINTS, .n = 2, .x = x, .y = y, .error = bar};
    struct plot p = of(&s, 1);
    char *text = draw(&p);
    CHECK(!strstr(text, ">-"));
    free(text);
    p.y.zero = false;
    text = draw(&p);
    CHECK(strstr(text, ">-40<"));
    free(text);
}

TEST(plot_without_values_says_so)
{
    const double none = NAN;
    const struct plot_series empty[] = {{.name = "a", .mark = PLOT_LINE},
                                        {.name = "b", .n = 1, .x = &none, .y = &none}};
    const struct plot plots[] = {of(empty, 2), of(NULL, 0)};
    for (size_t i = 0; i < 2; i++) {
        char *text = draw(&plots[i]);
        CHECK(strstr(text, "no values"));
        free(text);
    }
}

TEST(plot_of_one_point_and_of_huge_values)
{
    const double one = 3, x[] = {-1e300, 1e300, 1e301}, y[] = {1e-300, 1e300, 1};
    const struct plot_series s[] = {{.mark = PLOT_LINE, .n = 1, .x = &one, .y = &one},
                                    {.mark = PLOT_POINTS, .n = 3, .x = x, .y = y}};
    struct plot p = of(s, 1);
    free(draw(&p));
    p = of(s + 1, 1);
    p.x.time = true;
    char *text = draw(&p);
    CHECK_INT(count(text, "<circle"), 2);
    free(text);
    p.width = p.height = 1;
    free(draw(&p));
}

TEST(plot_escapes_every_text)
{
    const double one = 1;
    const struct plot_series s = {.name = "<b>&\"\x01\xff", .n = 1, .x = &one, .y = &one};
    struct plot p = of(&s, 1);
    p.title = "</title><script>alert('x')</script>";
    p.x.label = "a & b";
    p.y.label = "\xe2\x82\xac > \x7f";
    p.alone = true;
    char *text = draw(&p);
    CHECK(strstr(text, "&lt;script&gt;alert(&#39;x&#39;)") && strstr(text, "a &amp; b"));
    CHECK(strstr(text, "&lt;b&gt;&amp;&quot;\xef\xbf\xbd\xef\xbf\xbd<"));
    CHECK(strstr(text, "\xe2\x82\xac &gt; \xef\xbf\xbd<") && strstr(text, "<style>"));
    free(text);
}

TEST(plot_says_when_it_does_not_fit_the_buffer)
{
    struct error e = {0};
    struct buf out;
    const struct plot p = of(NULL, 0);
    buf_init(&out, 100);
    CHECK(plot_svg(&out, &p, &e) < 0 && e.text[0]);
    buf_release(&out);
}
