/*
 * The doctor: what this machine is like, and what would go wrong tonight.
 *
 * A check is a row of checks.def and a function that looks at one thing and says what it found, one
 * sentence with figures each, and for what should be mended how. It never changes anything, never fails
 * and never prints; what it cannot find out it says or leaves out.
 *
 * `root` stands before every path of the machine: "" for this one, a folder for tests. What can only be
 * asked of the machine itself (limits of the process, GPUs, the clock) is asked only where root is "".
 * One thread.
 */
#ifndef BATCH_DOCTOR_DOCTOR_H
#define BATCH_DOCTOR_DOCTOR_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ledger.h"
#include "batch/window.h"
#include "engine/engine.h"
#include "queue/queue.h"

enum doctor_status {
    DOCTOR_OK,
    DOCTOR_NOTE,    /* good to know */
    DOCTOR_WARNING, /* may cost time or answers */
    DOCTOR_PROBLEM, /* nothing would come of the night */
    DOCTOR_STATUS_COUNT
};

struct doctor_finding {
    const char *check;
    enum doctor_status status;
    char *text;
    char *mend;    /* how, in a sentence; NULL: nothing to mend */
    cJSON *values; /* figures for programs, an object; NULL: none */
};

#define DOCTOR_FINDINGS_MAX 96

struct doctor {
    const char *root;
    /* The queue, or why it cannot be opened; and what the worker was told. */
    const char *database;
    struct queue *queue;
    struct error queue_error;
    struct queue_status status; /* of an open queue */
    struct windows windows;
    int64_t lease_us;
    uint64_t reserve_bytes;
    /* The model by its headers, or why there is none; path NULL: none was named. */
    const char *model_path;
    struct engine *model;
    struct error model_error;
    struct ledger *ledger; /* with the budget of a run; NULL: budget_error says why not */
    struct error budget_error;
    char budget_from[700];
    bool found_all; /* false: memory ran out on the way */
    const char *check;
    struct doctor_finding finding[DOCTOR_FINDINGS_MAX];
    size_t n;
};

/* Asks every row of checks.def. The caller has filled in what it knows; all else is zero. */
void doctor_look(struct doctor *d);
/* The same of one row; false: there is none of that name. */
bool doctor_look_at(struct doctor *d, const char *check);
/* Gives back what was found; queue, model and ledger are the caller's. */
void doctor_forget(struct doctor *d);
enum doctor_status doctor_worst(const struct doctor *d);
const char *doctor_status_name(enum doctor_status s);
const char *doctor_title(const char *check);

/* ---- For checks ---- */

/* One finding. mend: NULL, or a sentence. */
void doctor_say(struct doctor *d, enum doctor_status status, const char *mend, const char *fmt, ...)
    ATTR_PRINTF(4, 5);
/* A figure of the last finding. */
void doctor_value(struct doctor *d, const char *name, double value);
/* A file below the root as text, without its last line feed; "" when it cannot be read. */
const char *doctor_read(const struct doctor *d, const char *path, char *out, size_t size);
bool doctor_exists(const struct doctor *d, const char *path);
/* Whether this is the machine that it runs on. */
bool doctor_live(const struct doctor *d);

#define CHECK(name, title) void doctor_##name(struct doctor *d);
#include "batch/doctor/checks.def"
#undef CHECK

#endif
