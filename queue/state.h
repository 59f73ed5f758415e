/*
 * The states of a job and what may happen to it: one pure function, shared by every backend.
 *
 *              promote                 claim                 finish
 *   held ------------------> queued ------------> running ------------> done
 *     ^  <------------------   | ^  <------------   | | |
 *     |        hold            | |     release      | | |    fail
 *     |                        | |                  | | +-------------> failed
 *     +------------------------|-|------------------+ |
 *     |          defer         | |                    |
 *     |                        | |                    |    cancel
 *     +------------------------+-|--------------------+---------------> cancelled
 *     |                        |
 *     +------------------------+--------------------------------------> expired
 *                                          expire
 *
 * `queued` means claimable now. `held` carries reasons (QUEUE_HOLD_*), and promote happens when the
 * last one goes. done, failed, cancelled and expired are final: nothing leads out of them; a retry
 * adds another job under the same request. The database refuses every other change of state by
 * itself (trigger job_transition); a test compares the two.
 *
 * Owns nothing; every function is pure and may be called from any thread.
 */
#ifndef QUEUE_STATE_H
#define QUEUE_STATE_H

#include <stdbool.h>

enum queue_state {
    QUEUE_HELD,
    QUEUE_QUEUED,
    QUEUE_RUNNING,
    QUEUE_DONE,
    QUEUE_FAILED,
    QUEUE_CANCELLED,
    QUEUE_EXPIRED,
    QUEUE_STATE_COUNT
};

enum queue_move {
    QUEUE_MOVE_PROMOTE,
    QUEUE_MOVE_HOLD,
    QUEUE_MOVE_CLAIM,
    QUEUE_MOVE_RELEASE,
    QUEUE_MOVE_DEFER, /* released, but not before a time */
    QUEUE_MOVE_FINISH,
    QUEUE_MOVE_FAIL,
    QUEUE_MOVE_CANCEL,
    QUEUE_MOVE_EXPIRE,
    QUEUE_MOVE_COUNT
};

/* Why a job is held; bits. */
#define QUEUE_HOLD_SUBMITTING 1u
#define QUEUE_HOLD_NOT_BEFORE 2u
#define QUEUE_HOLD_DEPENDENCY 4u
#define QUEUE_HOLD_USER 8u

/* The state after the move, or -1 when the move is not allowed there. */
int queue_state_next(enum queue_state from, enum queue_move move);
bool queue_state_final(enum queue_state state);
/* "held"; the words are those of the database. */
const char *queue_state_name(enum queue_state state);
/* The state of that name, or -1. */
int queue_state_parse(const char *name);

#endif
