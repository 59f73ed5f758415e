/* Memory that is short: what batch/relief.h calls for is done, said and put on record. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "base/clock.h"
#include "batch/worker/parts.h"

#define SAMPLE_EVERY_US 1000000
#define WHY_BYTES 640
/* Of the experts' slots, each time; of what was loaded at most so much while no two signs agree. */
#define SHRINK_PART 8
#define ALONE_PART 2

/* ---- The record ------------------------------------------------------------------------------- */

static void add_known(cJSON *o, const char *name, double value)
{
    if (value >= 0)
        cJSON_AddNumberToObject(o, name, value);
}

/* What was seen and what was done; nothing of what is unknown. */
static void note(struct worker *w, const char *kind, uint64_t given_bytes)
{
    const struct relief *r = &w->relief;
    const struct pressure_sample *s = &r->sample[0];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "level", relief_level_name(r->level));
    cJSON_AddNumberToObject(o, "signs", relief_signs(r, RELIEF_RAISED));
    for (enum relief_measure m = 0; m < RELIEF_MEASURES; m++)
        add_known(o, relief_measure_name(m), r->value[m]);
    add_known(o, "available_bytes", (double)s->available_bytes);
    add_known(o, "free_bytes", (double)s->free_bytes);
    add_known(o, "resident_bytes", (double)s->resident_bytes);
    add_known(o, "group_bytes", (double)s->group_bytes);
    cJSON_AddNumberToObject(o, "given_back_bytes", (double)given_bytes);
    cJSON_AddNumberToObject(o, "ledger_bytes", (double)ledger_total(w->ledger));
    worker_note(w, kind, o);
}

/* ---- What is done ----------------------------------------------------------------------------- */

/* Experts that are dropped are read again when they are wanted; they come back to stay with the next load. */
static uint64_t shrink(struct worker *w)
{
    const uint64_t now = w->engine ? ledger_used(w->ledger, LEDGER_SLOTS) : 0;
    const bool alone = !relief_agreed(&w->relief);
    w->most_slots_bytes = MAX_OF(w->most_slots_bytes, now);
    const uint64_t least = alone ? w->most_slots_bytes / ALONE_PART : 0;
    const uint64_t want = MIN_OF(now / SHRINK_PART, now - MIN_OF(least, now));
    return want ? engine_shrink_experts(w->engine, want) : 0;
}

/* A step up is said with what it goes by; a step down is nobody's alarm. */
static void say(struct worker *w, bool up, uint64_t given_bytes)
{
    static const char *const does[RELIEF_LEVELS] = {"", "", "; begins nothing more",
                                                    "; gives back all work and the model's memory"};
    char why[WHY_BYTES], given[96] = "", size[24];
    const enum relief_level level = w->relief.level;
    relief_why(&w->relief, why, sizeof(why));
    if (given_bytes)
        snprintf(given, sizeof(given), "; gives back %s of experts",
                 str_format_size(given_bytes, size));
    if (up)
        report_say(&w->report, LOG_WARN, "memory is short: %s%s%s", why, given, does[level]);
    else
        report_say(&w->report, LOG_INFO, "memory: %s%s%s",
                   level == RELIEF_NONE ? "no longer short" : "less short, work goes on",
                   *why ? "; still " : "", why);
}

static void sample(struct worker *w)
{
    struct pressure_sample now;
    const enum relief_level before = w->relief.level;
    pressure_read(&w->place, &now);
    now.at_us *= w->o->haste;
    const bool changed = relief_take(&w->relief, &now);
    const uint64_t given = w->relief.shrink ? shrink(w) : 0;
    if (changed)
        say(w, w->relief.level > before, given);
    if (changed || given)
        note(w, changed ? "pressure" : "pressure_shrink", given);
}

int gate_pressure(struct worker *w, struct gate_view *ret, struct error *e)
{
    (void)e;
    const int64_t now_us = clock_mono_us();
    if (!w->o->relieve)
        return 0;
    if (now_us >= w->next_sample_us) {
        w->next_sample_us = now_us + SAMPLE_EVERY_US / w->o->haste;
        sample(w);
    }
    if (w->relief.level == RELIEF_NO_MORE) {
        ret->stand = GATE_FINISH;
        snprintf(ret->why, sizeof(ret->why), "memory is short: finishes what runs");
    } else if (w->relief.level == RELIEF_PAUSE) {
        ret->stand = GATE_SHUT;
        snprintf(ret->why, sizeof(ret->why),
                 "paused: memory is short; goes on when it has not been for some minutes");
    }
    return 0;
}
