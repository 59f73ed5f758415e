/*
 * What happened, waiting to be asked for: a ring of small records in memory of the caller's.
 *
 * Stays true: a step gives a sequence at most EVENTS_PER_SEQUENCE records and no step runs while one
 * is waiting, so a ring of that many per slot never overflows. A sequence lives until its last record
 * was asked for.
 */
#ifndef ENGINE_LOCAL_EVENTS_H
#define ENGINE_LOCAL_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "engine/engine.h"

#define EVENTS_PER_SEQUENCE 3u /* PREFILL, TOKEN, and DONE or FAILED */

struct sequence;

struct event {
    enum engine_event_kind kind;
    struct sequence *s;
    int32_t token;      /* TOKEN */
    uint32_t prefilled; /* PREFILL */
    struct str text;    /* TOKEN: in the sequence's answer */
    struct str thought; /* TOKEN: in its thought */
};

struct events {
    struct event *at; /* [cap] */
    size_t cap;
    size_t first;
    size_t n;
};

void events_push(struct events *q, const struct event *event);
bool events_pop(struct events *q, struct event *ret);
/* Forgets the records of one sequence. */
void events_drop(struct events *q, const struct sequence *s);

#endif
