/* How far a worker stands back: nights of samples, a second apart, and the level that comes of them. */
#include "batch/relief.h"

#include "tests/test.h"

#define GIB (INT64_C(1) << 30)

/* What a second of a machine is like. */
struct weather {
    double some, full;              /* of the time lost, percent */
    double taken;                   /* of memory, percent */
    int64_t faults, refaults, hits; /* in it */
};
static const struct weather clear = {.taken = 60};
static const struct weather stall = {.some = 30, .full = 12, .taken = 60};
static const struct weather storm = {.some = 60, .full = 40, .taken = 60, .faults = 3000};
static const struct weather rough = {.some = 30, .full = 12, .taken = 60, .refaults = 5000};

struct night {
    struct relief relief;
    struct pressure_sample s;
    int n_changes;
    bool deaf; /* the kernel tells of no stalls */
};

static void begin(struct night *n)
{
    memset(n, 0, sizeof(*n));
    n->s = (struct pressure_sample){
        .at_us = 1000000, .total_bytes = 100 * GIB, .available_bytes = 40 * GIB};
    n->s.group = (struct pressure_stall){-1, -1, -1, -1};
    n->s.throttled_us = n->s.ooms = -1;
    relief_take(&n->relief, &n->s);
}

/* So many seconds of that; avg10 as the kernel makes it, a mean that forgets over ten seconds. */
static enum relief_level pass(struct night *n, const struct weather *w, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        struct pressure_sample *s = &n->s;
        s->at_us += 1000000;
        s->system.some_avg10 += (w->some - s->system.some_avg10) * 0.18;
        s->system.full_avg10 += (w->full - s->system.full_avg10) * 0.18;
        s->system.some_us += (int64_t)(w->some * 10000);
        s->system.full_us += (int64_t)(w->full * 10000);
        s->available_bytes = (int64_t)((100 - w->taken) / 100 * (double)s->total_bytes);
        s->major_faults += w->faults;
        s->refaults += w->refaults;
        s->limit_hits += w->hits;
        if (n->deaf)
            s->system = n->s.group;
        n->n_changes += relief_take(&n->relief, s);
    }
    return n->relief.level;
}

TEST(relief_is_not_called_for_by_a_spike)
{
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &clear, 60), RELIEF_NONE);
    for (int i = 0; i < 20; i++) {
        CHECK_INT(pass(&n, &storm, 3), RELIEF_NONE);
        CHECK(!n.relief.shrink);
        CHECK_INT(pass(&n, &clear, 15), RELIEF_NONE);
    }
    CHECK_INT(n.n_changes, 0);
}

/* Whatever it is and however long it lasts. */
TEST(relief_by_one_sign_is_to_shrink_and_no_more)
{
    const struct weather one[] = {{.some = 99, .full = 99, .taken = 60},
                                  {.taken = 99.5},
                                  {.taken = 60, .faults = 100000, .refaults = 100000},
                                  {.taken = 60, .hits = 100000}};
    for (size_t i = 0; i < ARRAY_LEN(one); i++) {
        struct night n;
        int shrunk = 0;
        begin(&n);
        CHECK_INT(pass(&n, &clear, 30), RELIEF_NONE);
        for (int k = 0; k < 3600; k++) {
            CHECK(pass(&n, &one[i], 1) <= RELIEF_SHRINK);
            shrunk += n.relief.shrink;
        }
        CHECK_INT(n.relief.level, RELIEF_SHRINK);
        CHECK_INT(n.n_changes, 1);
        CHECK(shrunk > 100 && shrunk <= 3600 / 15 + 1);
        CHECK_INT(pass(&n, &clear, 45), RELIEF_SHRINK);
        CHECK(!n.relief.shrink);
        CHECK_INT(pass(&n, &clear, 60), RELIEF_NONE);
        CHECK_INT(n.n_changes, 2);
    }
}

/* MemFree is no sign at all: it is low on every healthy machine that has been up for a day. */
TEST(relief_does_not_look_at_free_memory)
{
    struct night n;
    begin(&n);
    n.s.free_bytes = 0;
    CHECK_INT(pass(&n, &clear, 600), RELIEF_NONE);
    CHECK_INT(relief_signs(&n.relief, RELIEF_HEARD), 0);
}

TEST(relief_by_two_signs_goes_one_step_at_a_time)
{
    struct night n;
    int at[RELIEF_LEVELS] = {0};
    enum relief_level last = RELIEF_NONE;
    begin(&n);
    CHECK_INT(pass(&n, &clear, 30), RELIEF_NONE);
    for (int second = 1; second <= 60; second++) {
        const enum relief_level now = pass(&n, &storm, 1);
        CHECK(now == last || now == last + 1);
        if (now != last)
            at[now] = second;
        last = now;
    }
    CHECK_INT(last, RELIEF_PAUSE);
    CHECK(at[RELIEF_SHRINK] >= 5 && at[RELIEF_SHRINK] <= 8);
    CHECK(at[RELIEF_NO_MORE] >= at[RELIEF_SHRINK] + 5);
    CHECK(at[RELIEF_PAUSE] >= at[RELIEF_NO_MORE] + 10 && at[RELIEF_PAUSE] <= 30);
    CHECK_INT(n.n_changes, 3);
}

/*
 * As measured: a file of 400 MB, read again and again in a group of 200 MB. Two figures that are far
 * beyond their limits, of one cause, and nobody goes short.
 */
TEST(relief_is_not_misled_by_page_cache_at_a_limit)
{
    const struct weather churn = {
        .some = 7, .full = 0.5, .taken = 60, .refaults = 350000, .hits = 800};
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &churn, 3600), RELIEF_SHRINK);
    CHECK_INT(relief_signs(&n.relief, RELIEF_SEVERE), 2);
    CHECK(!relief_agreed(&n.relief));
    CHECK_INT(n.n_changes, 1);
    /* Where the kernel tells of no stalls they are all there is to go by. */
    begin(&n);
    n.deaf = true;
    CHECK_INT(pass(&n, &churn, 60), RELIEF_PAUSE);
}

/* Neither is severe; but nothing has helped for a minute. */
TEST(relief_by_two_signs_that_go_on_ends_in_a_pause)
{
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &rough, 40), RELIEF_NO_MORE);
    CHECK_INT(pass(&n, &rough, 60), RELIEF_PAUSE);
}

TEST(relief_ends_well_after_the_signs)
{
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &rough, 30), RELIEF_NO_MORE);
    CHECK_INT(pass(&n, &stall, 20), RELIEF_NO_MORE); /* one is left */
    CHECK_INT(pass(&n, &stall, 30), RELIEF_SHRINK);
    CHECK_INT(pass(&n, &clear, 50), RELIEF_SHRINK);
    CHECK_INT(pass(&n, &clear, 40), RELIEF_NONE);
    CHECK_INT(pass(&n, &storm, 60), RELIEF_PAUSE);
    CHECK_INT(pass(&n, &clear, 170), RELIEF_PAUSE);
    CHECK_INT(pass(&n, &clear, 40), RELIEF_NONE);
}

/* One sign that never rests does not hold a pause for ever, if it is not that memory is taken. */
TEST(relief_pauses_until_a_load_would_have_memory)
{
    const struct weather full = {.taken = 96}, restless = {.taken = 60, .refaults = 2000};
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &storm, 60), RELIEF_PAUSE);
    CHECK_INT(pass(&n, &full, 1200), RELIEF_PAUSE);
    CHECK_INT(pass(&n, &restless, 240), RELIEF_NONE);
}

/* Below what raises a sign and above what calms it nothing changes, in either direction. */
TEST(relief_does_not_flap_between_the_bounds)
{
    const struct weather between = {.some = 7, .full = 3, .taken = 96, .faults = 50};
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &between, 1000), RELIEF_NONE);
    CHECK_INT(n.n_changes, 0);
    CHECK_INT(pass(&n, &rough, 30), RELIEF_NO_MORE);
    CHECK_INT(pass(&n, &between, 1000), RELIEF_NO_MORE);
    CHECK_INT(n.n_changes, 2);
}

/* The machine is well as long as this worker is not there: it tries less and less often. */
TEST(relief_pauses_for_longer_when_it_does_not_last)
{
    struct night n;
    int n_pauses = 0, paused = 0;
    begin(&n);
    for (int second = 0; second < 8 * 3600; second++) {
        const enum relief_level before = n.relief.level;
        const enum relief_level now = pass(&n, before == RELIEF_PAUSE ? &clear : &storm, 1);
        n_pauses += before != RELIEF_PAUSE && now == RELIEF_PAUSE;
        paused += now == RELIEF_PAUSE;
    }
    CHECK(n_pauses >= 10 && n_pauses <= 16);
    CHECK(paused > 8 * 3600 * 9 / 10);
}

/* The kernel tells nothing: nothing is known, and nothing is done. */
TEST(relief_needs_figures)
{
    struct relief r = {0};
    struct pressure_place nowhere = {.process = "nowhere", .machine = "nowhere"};
    char why[200];
    for (int64_t second = 1; second < 100; second++) {
        struct pressure_sample s;
        pressure_read(&nowhere, &s);
        s.at_us = second * 1000000;
        CHECK(!relief_take(&r, &s));
    }
    CHECK_INT(r.level, RELIEF_NONE);
    for (size_t m = 0; m < RELIEF_MEASURES; m++)
        CHECK(r.value[m] < 0);
    relief_why(&r, why, sizeof(why));
    CHECK_STR(why, "");
}

/* Each is one event: it lasts for a while, and then it is over. */
TEST(relief_remembers_who_was_killed)
{
    struct night n;
    begin(&n);
    n.s.oom_kills++;
    CHECK_INT(pass(&n, &clear, 8), RELIEF_SHRINK);
    CHECK_INT(pass(&n, &rough, 12), RELIEF_NO_MORE);
    CHECK_INT(pass(&n, &rough, 2), RELIEF_NO_MORE);
    CHECK(n.relief.value[RELIEF_OOM_KILLS] > 0);
    CHECK_INT(pass(&n, &clear, 18), RELIEF_NO_MORE);
    CHECK_INT(relief_signs(&n.relief, RELIEF_HEARD), 0);
}

/* A machine that slept, or a load: two samples far apart say nothing of what was between. */
TEST(relief_begins_anew_after_a_gap)
{
    struct night n;
    begin(&n);
    CHECK_INT(pass(&n, &storm, 4), RELIEF_NONE);
    n.s.at_us += INT64_C(3600) * 1000000;
    CHECK_INT(pass(&n, &storm, 3), RELIEF_NONE);
    CHECK_INT(pass(&n, &storm, 3), RELIEF_SHRINK);
}

TEST(relief_tells_the_figures_and_their_limits)
{
    struct night n;
    char why[640], cut[40];
    begin(&n);
    pass(&n, &storm, 40);
    n.s.oom_kills = 2;
    pass(&n, &storm, 1);
    relief_why(&n.relief, why, sizeof(why));
    CHECK(strstr(why, "60.0 % of the time somebody waited for memory (limit 20)"));
    CHECK(strstr(why, "3000 major faults a second (limit 100)"));
    CHECK(strstr(why, "2 processes of the control group were killed (limit 1)"));
    CHECK(!strstr(why, "swap") && !strstr(why, "taken"));
    relief_why(&n.relief, cut, sizeof(cut));
    CHECK_INT(strlen(cut), sizeof(cut) - 1);
    CHECK_STR(relief_measure_name(RELIEF_OOM_KILLS), "oom_kills");
    CHECK_STR(relief_level_name(RELIEF_NO_MORE), "no more");
}
