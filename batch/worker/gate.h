/*
 * Gates: whether the worker may work now, and how far it stands back while it may not.
 *
 * Owns nothing but the answer that holds. A gate only says how open it is and why; what follows (jobs
 * given back with all they have, the model unloaded) is done in one place, worker_gates(), and undone by
 * itself when the gate opens. So a pause, the end of a window and a GPU that is taken are one thing to
 * the rest of the worker.
 */
#ifndef BATCH_WORKER_GATE_H
#define BATCH_WORKER_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

struct worker;

enum gate_stand {
    GATE_OPEN,
    GATE_FINISH, /* what runs goes on, nothing is claimed, nothing loaded */
    GATE_HOLD,   /* jobs are given back; the model stays */
    GATE_SHUT,   /* and the model goes */
};

#define GATE_TEXT_BYTES 512

struct gate_view {
    const char *name; /* of the gate, as gates.def has it */
    enum gate_stand stand;
    bool lasting;              /* nothing opens it but a person: a drain ends here, with 75 */
    int64_t opens_us;          /* wall time at which it opens; 0: nobody knows */
    char why[GATE_TEXT_BYTES]; /* "paused; 'nocturne resume' goes on"; said when it comes to hold */
};

/* The text of a `why`, cut where it does not fit. */
void gate_text(char out[GATE_TEXT_BYTES], const char *fmt, ...) ATTR_PRINTF(2, 3);

/* Asks them all and obeys. Says what holds whenever that changes. */
int worker_gates(struct worker *w, struct error *e);

#define GATE(name) int gate_##name(struct worker *w, struct gate_view *ret, struct error *e);
#include "batch/worker/gates.def"
#undef GATE

#endif
