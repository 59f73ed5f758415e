/*
 * How far to stand back when memory is short: samples in, a level out. Owns nothing; asks no clock.
 *
 *                two signs, 5 s          time or memory severe, 10 s
 *                                        (or 60 s have not helped)
 *   NONE --> SHRINK ------------> NO_MORE -----------------------> PAUSE
 *     ^  5 s  |  ^ <- one or none, 30 s |                            |
 *     +-------+  +----------------------+                            |
 *     | none, 60 s                                                   |
 *     +--------------------------- one or none, for minutes ---------+
 *
 * There are four signs: time lost (PSI), memory taken, pages that come back, a limit that is reached; relief.def
 * has what they are made of and from when on they count. They are counted apart from each other, since
 * every one of them has misfired on healthy machines: a single one does no more than shrink, and two must
 * agree before anybody's work is touched, one of them that somebody goes short: time lost or memory taken.
 *
 * Stays true: one step at a time; every step is preceded by its time without a break; a sign rests only
 * well below where it rises; what the kernel does not tell is no sign. A pause that follows a
 * resumption within half an hour lasts twice as long as the one before.
 */
#ifndef BATCH_RELIEF_H
#define BATCH_RELIEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch/host/pressure.h"

enum relief_level { RELIEF_NONE, RELIEF_SHRINK, RELIEF_NO_MORE, RELIEF_PAUSE, RELIEF_LEVELS };
enum relief_sign { RELIEF_STALL, RELIEF_SHORTAGE, RELIEF_FAULTS, RELIEF_LIMIT, RELIEF_SIGNS };
enum relief_grade { RELIEF_QUIET, RELIEF_HEARD, RELIEF_RAISED, RELIEF_SEVERE };
enum relief_measure {
#define MEASURE(id, sign, name, calm, raised, severe, digits, text) RELIEF_##id,
#include "batch/relief.def"
#undef MEASURE
    RELIEF_MEASURES
};

/* Rates are taken over the last five seconds, or since the sample before if that is longer. */
#define RELIEF_SAMPLES 8

/* All zeros: nothing has been seen. */
struct relief {
    enum relief_level level;
    bool shrink;                   /* caches should be made smaller now, again if need be */
    double value[RELIEF_MEASURES]; /* as last measured; negative: unknown */
    enum relief_grade grade[RELIEF_SIGNS];
    /* of samples */
    int64_t level_us; /* since when */
    int64_t
        wanted_us[RELIEF_LEVELS];  /* since when at least that level is called for; -1: it is not */
    int64_t eased_us;              /* since when the level could be left; -1: it could not */
    int64_t shrunk_us, resumed_us; /* -1: never */
    int64_t killed_us, n_killed;   /* the last ones, and when */
    unsigned n_again;              /* pauses that came soon after a resumption */
    struct pressure_sample sample[RELIEF_SAMPLES]; /* the newest first */
    size_t n_samples;
};

/* One sample, about a second after the one before. True: the level has changed. */
bool relief_take(struct relief *r, const struct pressure_sample *now);
/* Whether two signs agree: what calls for more than SHRINK. */
bool relief_agreed(const struct relief *r);
/* Signs that count at least that much. */
unsigned relief_signs(const struct relief *r, enum relief_grade at_least);
/* The measures that are not quiet, with their figures and limits; "" when there are none. */
void relief_why(const struct relief *r, char *out, size_t size);
const char *relief_level_name(enum relief_level level); /* "calm", "shrink", "no more", "pause" */
const char *relief_measure_name(enum relief_measure m);

#endif
