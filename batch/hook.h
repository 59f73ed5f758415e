/*
 * Hooks: a command of the user's that is run when something happens that he wants to know of.
 *
 * `sh -c COMMAND` gets one JSON object on its standard input, and NOCTURNE_EVENT and NOCTURNE_DB in its
 * environment. Owns the events that wait, of which there are at most HOOK_PENDING_MAX, and the one
 * process that runs.
 *
 * Stays true: whatever the command does or fails to do, nobody waits for it but hook_close, and that
 * only for as long as it is told. One process at a time; one that takes longer than the time limit is
 * killed with its group. Failures that come in a burst are told together: the first at once, those of
 * the next half minute in one event, the first HOOK_LISTED_MAX of them by name. An event that finds no
 * room is dropped; the next one tells how many were. There is always room for "drained".
 * What goes wrong with hooks is said once each cause.
 *
 * One thread. hook_poll is to be called often; it costs nothing while no process runs.
 */
#ifndef BATCH_HOOK_H
#define BATCH_HOOK_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define HOOK_PENDING_MAX 16
#define HOOK_LISTED_MAX 20
#define HOOK_HURRIED_US INT64_C(5000000)

struct hook;

struct hook_options {
    const char *command;  /* the three texts outlive the hook */
    const char *database; /* its path */
    const char *model;    /* what works on it; NULL: not said */
    int64_t timeout_us;
    /* Something went wrong; each cause once. */
    void (*warn)(void *context, const char *text);
    /* Whether the end is in a hurry, asked again and again in hook_close; NULL: it never is. */
    bool (*hurried)(void *context);
    void *context;
};

int hook_open(struct hook **ret, const struct hook_options *o, struct error *e);
/*
 * Has the command run with that object, to which event, time, database, model and the number of dropped
 * events are added. `event` is a literal. Takes the object. Here and below NULL for `h` is no hook.
 */
void hook_tell(struct hook *h, const char *event, cJSON *about);
/* A request that failed, to be told with others. Takes the object. */
void hook_tell_failed(struct hook *h, cJSON *about);
/* Sees to the process that runs, and starts the next one when its time has come. */
void hook_poll(struct hook *h);
/*
 * Waits that long for what runs and what waits, and once in a hurry HOOK_HURRIED_US at most; then kills
 * the one and drops the other.
 */
void hook_close(struct hook *h, int64_t patience_us);

#endif
