#include "batch/relief.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "batch/host/figures.h"

#define SECOND_US INT64_C(1000000)
#define WINDOW_US (5 * SECOND_US)
#define KILL_US (30 * SECOND_US)
/* Samples that are further apart say nothing of what was between: a load, a machine that slept. */
#define GAP_US (120 * SECOND_US)

/* How long a level has to be called for; and how long the one before has to have been given a chance. */
static const int64_t hold_us[RELIEF_LEVELS] = {0, 5 * SECOND_US, 5 * SECOND_US, 10 * SECOND_US};
static const int64_t chance_us[RELIEF_LEVELS] = {0, 5 * SECOND_US, 10 * SECOND_US, 0};
/* Nothing but a pause gives much memory back: two signs that go on for so long end in one, severe or not. */
#define NO_HELP_US (60 * SECOND_US)
/* How long a level has to be uncalled for before it is left. */
static const int64_t rest_us[RELIEF_LEVELS] = {0, 60 * SECOND_US, 30 * SECOND_US, 180 * SECOND_US};
#define AGAIN_US (1800 * SECOND_US)
#define AGAIN_MOST 4
#define SHRINK_EVERY_US (15 * SECOND_US)

static const struct row {
    enum relief_sign sign;
    const char *name, *text;
    int digits;
    double bound[RELIEF_SEVERE + 1]; /* from which value on it has that grade */
} rows[RELIEF_MEASURES] = {
#define MEASURE(id, sign, name, calm, raised, severe, digits, text)                                \
    [RELIEF_##id] = {RELIEF_##sign, name, text, digits, {0, calm, raised, severe}},
#include "batch/relief.def"
#undef MEASURE
};

const char *relief_level_name(enum relief_level level)
{
    static const char *const names[] = {"calm", "shrink", "no more", "pause"};
    return names[level];
}

const char *relief_measure_name(enum relief_measure m)
{
    return rows[m].name;
}

/* ---- Measures --------------------------------------------------------------------------------- */

static double per_second(int64_t before, int64_t now, int64_t us)
{
    const int64_t n = figure_since(before, now);
    return n < 0 || us <= 0 ? -1 : (double)n * 1e6 / (double)us;
}

/*
 * avg10, and a rate over some seconds, go on after what they tell of is over: they count only as far as the
 * time since the sample before bears them out, with room for what comes in bursts.
 */
static double borne_out(double value, double lately)
{
    return lately < 0 ? value : MIN_OF(value, 4 * lately);
}

/* The newest one that is a window ago; the one before if all are older; itself if it is the only one. */
static const struct pressure_sample *window(const struct relief *r)
{
    size_t i = r->n_samples > 1 ? 1 : 0;
    while (i + 1 < r->n_samples && r->sample[0].at_us - r->sample[i].at_us < WINDOW_US)
        i++;
    return &r->sample[i];
}

/* Three moments: now, the sample before, and a window ago. */
struct span {
    const struct pressure_sample *now, *last, *then;
    int64_t last_us, us; /* since those */
};

static void measure_stall(const struct span *s, const struct pressure_stall *now,
                          const struct pressure_stall *last, double *ret_some, double *ret_full)
{
    const double some = per_second(last->some_us, now->some_us, s->last_us) / 1e4;
    const double full = per_second(last->full_us, now->full_us, s->last_us) / 1e4;
    *ret_some = borne_out(now->some_avg10, some);
    *ret_full = borne_out(now->full_avg10, full);
}

static double rate(const struct span *s, int64_t now, int64_t last, int64_t then)
{
    return borne_out(per_second(then, now, s->us), per_second(last, now, s->last_us));
}

/* Each is one event, and not over with the second in which it happens. */
static double kills(struct relief *r, const struct span *s)
{
    const int64_t n = figure_since(s->last->oom_kills, s->now->oom_kills);
    if (n > 0) {
        r->killed_us = s->now->at_us;
        r->n_killed = n;
    }
    if (s->now->at_us - r->killed_us >= KILL_US)
        r->n_killed = 0;
    return n < 0 ? -1 : (double)r->n_killed;
}

static void measure(struct relief *r)
{
    struct span s = {&r->sample[0], &r->sample[r->n_samples > 1 ? 1 : 0], window(r), 0, 0};
    s.last_us = s.now->at_us - s.last->at_us;
    s.us = s.now->at_us - s.then->at_us;
    const struct pressure_sample *now = s.now, *last = s.last, *then = s.then;
    double *v = r->value;
    measure_stall(&s, &now->system, &last->system, &v[RELIEF_SYSTEM_SOME], &v[RELIEF_SYSTEM_FULL]);
    measure_stall(&s, &now->group, &last->group, &v[RELIEF_GROUP_SOME], &v[RELIEF_GROUP_FULL]);
    v[RELIEF_TAKEN] = now->total_bytes <= 0 || now->available_bytes < 0
                          ? -1
                          : 100 - 100 * (double)now->available_bytes / (double)now->total_bytes;
    v[RELIEF_MAJOR_FAULTS] = rate(&s, now->major_faults, last->major_faults, then->major_faults);
    v[RELIEF_REFAULTS] = rate(&s, now->refaults, last->refaults, then->refaults);
    v[RELIEF_SWAPPED] =
        rate(&s, now->swapped_bytes, last->swapped_bytes, then->swapped_bytes) / (1 << 20);
    v[RELIEF_LIMIT_HITS] = rate(&s, now->limit_hits, last->limit_hits, then->limit_hits);
    v[RELIEF_OOM_KILLS] = kills(r, &s);
}

static void judge(struct relief *r)
{
    memset(r->grade, 0, sizeof(r->grade));
    for (size_t m = 0; m < RELIEF_MEASURES; m++) {
        const struct row *row = &rows[m];
        enum relief_grade grade = RELIEF_QUIET;
        while (grade < RELIEF_SEVERE && r->value[m] >= row->bound[grade + 1])
            grade++;
        r->grade[row->sign] = MAX_OF(r->grade[row->sign], grade);
    }
}

unsigned relief_signs(const struct relief *r, enum relief_grade at_least)
{
    unsigned n = 0;
    for (size_t s = 0; s < RELIEF_SIGNS; s++)
        n += r->grade[s] >= at_least;
    return n;
}

void relief_why(const struct relief *r, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t m = 0; m < RELIEF_MEASURES && at < size; m++) {
        if (r->value[m] < rows[m].bound[RELIEF_HEARD])
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%.*f %s (limit %g)", at ? ", " : "",
                               rows[m].digits, r->value[m], rows[m].text,
                               rows[m].bound[RELIEF_RAISED]);
    }
}

/* ---- Levels ----------------------------------------------------------------------------------- */

/*
 * Whether anybody goes short. Page cache at a limit comes and goes at any rate without that, and is two
 * signs by itself; only where stalls are not told has it to do for one.
 */
static bool goes_short(const struct relief *r, enum relief_grade at_least)
{
    const bool told = r->value[RELIEF_SYSTEM_SOME] >= 0 || r->value[RELIEF_GROUP_SOME] >= 0;
    return r->grade[RELIEF_STALL] >= at_least || r->grade[RELIEF_SHORTAGE] >= at_least ||
           (!told && relief_signs(r, at_least) > 0);
}

static bool agree(const struct relief *r, enum relief_grade at_least)
{
    return relief_signs(r, at_least) >= 2 && goes_short(r, at_least);
}

bool relief_agreed(const struct relief *r)
{
    return agree(r, RELIEF_RAISED);
}

static enum relief_level called_for(const struct relief *r)
{
    if (!agree(r, RELIEF_RAISED))
        return relief_signs(r, RELIEF_RAISED) ? RELIEF_SHRINK : RELIEF_NONE;
    return goes_short(r, RELIEF_SEVERE) ? RELIEF_PAUSE : RELIEF_NO_MORE;
}

/*
 * Two signs led beyond SHRINK, so two keep it there: one that is never quiet would hold it for ever. A load
 * needs memory, though.
 */
static bool eased(const struct relief *r)
{
    if (r->level <= RELIEF_SHRINK)
        return relief_signs(r, RELIEF_HEARD) == 0;
    return !agree(r, RELIEF_HEARD) &&
           (r->level == RELIEF_NO_MORE || r->grade[RELIEF_SHORTAGE] == RELIEF_QUIET);
}

/* Since when something has been so without a break. */
static void keep_since(int64_t *since_us, bool is_so, int64_t now_us)
{
    if (!is_so)
        *since_us = -1;
    else if (*since_us < 0)
        *since_us = now_us;
}

static bool is_so_for(int64_t since_us, int64_t now_us, int64_t long_us)
{
    return since_us >= 0 && now_us - since_us >= long_us;
}

static bool goes_up(const struct relief *r, int64_t now_us)
{
    const enum relief_level next = r->level + 1;
    if (next >= RELIEF_LEVELS)
        return false;
    const int64_t here_us = now_us - r->level_us;
    if (r->level == RELIEF_NO_MORE && here_us >= NO_HELP_US &&
        is_so_for(r->wanted_us[RELIEF_NO_MORE], now_us, NO_HELP_US))
        return true;
    return is_so_for(r->wanted_us[next], now_us, hold_us[next]) &&
           (r->level == RELIEF_NONE || here_us >= chance_us[r->level]);
}

static bool goes_down(const struct relief *r, int64_t now_us)
{
    const int64_t rest = rest_us[r->level] << (r->level == RELIEF_PAUSE ? r->n_again : 0);
    return r->level != RELIEF_NONE && is_so_for(r->eased_us, now_us, rest);
}

static void set_level(struct relief *r, enum relief_level level, int64_t now_us)
{
    if (level == RELIEF_PAUSE) {
        const bool again = r->resumed_us >= 0 && now_us - r->resumed_us < AGAIN_US;
        r->n_again = again ? MIN_OF(r->n_again + 1, (unsigned)AGAIN_MOST) : 0;
    }
    if (r->level == RELIEF_PAUSE)
        r->resumed_us = now_us;
    r->level = level;
    r->level_us = now_us;
    r->eased_us = -1;
}

static bool move(struct relief *r, int64_t now_us)
{
    if (goes_up(r, now_us))
        set_level(r, r->level + 1, now_us);
    else if (goes_down(r, now_us))
        set_level(r, r->level == RELIEF_NO_MORE ? RELIEF_SHRINK : RELIEF_NONE, now_us);
    else
        return false;
    return true;
}

/* At every step up, and again as long as there is a reason. */
static bool shrinks(struct relief *r, bool rose, int64_t now_us)
{
    if (r->level == RELIEF_NONE || relief_signs(r, RELIEF_RAISED) == 0)
        return false;
    if (!rose && now_us - r->shrunk_us < SHRINK_EVERY_US)
        return false;
    r->shrunk_us = now_us;
    return true;
}

static void remember(struct relief *r, const struct pressure_sample *now)
{
    if (r->n_samples == 0 || now->at_us - r->sample[0].at_us > GAP_US) {
        if (r->n_samples == 0)
            r->resumed_us = -1;
        r->n_samples = 0;
        r->eased_us = -1;
        for (size_t l = 0; l < RELIEF_LEVELS; l++)
            r->wanted_us[l] = -1;
    }
    r->n_samples = MIN_OF(r->n_samples + 1, (size_t)RELIEF_SAMPLES);
    memmove(r->sample + 1, r->sample, (r->n_samples - 1) * sizeof(*r->sample));
    r->sample[0] = *now;
}

bool relief_take(struct relief *r, const struct pressure_sample *now)
{
    const enum relief_level before = r->level;
    remember(r, now);
    measure(r);
    judge(r);
    const enum relief_level wanted = called_for(r);
    for (enum relief_level l = RELIEF_NONE; l < RELIEF_LEVELS; l++)
        keep_since(&r->wanted_us[l], wanted >= l, now->at_us);
    keep_since(&r->eased_us, eased(r), now->at_us);
    const bool changed = move(r, now->at_us);
    r->shrink = shrinks(r, r->level > before, now->at_us);
    return changed;
}
