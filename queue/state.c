#include "queue/state.h"

#include <string.h>

#include "base/compiler.h"

static const char *const state_names[QUEUE_STATE_COUNT] = {
    [QUEUE_HELD] = "held",       [QUEUE_QUEUED] = "queued", [QUEUE_RUNNING] = "running",
    [QUEUE_DONE] = "done",       [QUEUE_FAILED] = "failed", [QUEUE_CANCELLED] = "cancelled",
    [QUEUE_EXPIRED] = "expired",
};

/* Every arrow of the drawing, once. */
static const struct {
    enum queue_state from;
    enum queue_move move;
    enum queue_state to;
} arrows[] = {
    {QUEUE_HELD, QUEUE_MOVE_PROMOTE, QUEUE_QUEUED},
    {QUEUE_QUEUED, QUEUE_MOVE_HOLD, QUEUE_HELD},
    {QUEUE_QUEUED, QUEUE_MOVE_CLAIM, QUEUE_RUNNING},
    {QUEUE_RUNNING, QUEUE_MOVE_RELEASE, QUEUE_QUEUED},
    {QUEUE_RUNNING, QUEUE_MOVE_DEFER, QUEUE_HELD},
    {QUEUE_RUNNING, QUEUE_MOVE_FINISH, QUEUE_DONE},
    {QUEUE_RUNNING, QUEUE_MOVE_FAIL, QUEUE_FAILED},
    {QUEUE_HELD, QUEUE_MOVE_CANCEL, QUEUE_CANCELLED},
    {QUEUE_QUEUED, QUEUE_MOVE_CANCEL, QUEUE_CANCELLED},
    {QUEUE_RUNNING, QUEUE_MOVE_CANCEL, QUEUE_CANCELLED},
    {QUEUE_HELD, QUEUE_MOVE_EXPIRE, QUEUE_EXPIRED},
    {QUEUE_QUEUED, QUEUE_MOVE_EXPIRE, QUEUE_EXPIRED},
};

int queue_state_next(enum queue_state from, enum queue_move move)
{
    for (size_t i = 0; i < ARRAY_LEN(arrows); i++) {
        if (arrows[i].from == from && arrows[i].move == move)
            return (int)arrows[i].to;
    }
    return -1;
}

bool queue_state_final(enum queue_state state)
{
    return state >= QUEUE_DONE;
}

const char *queue_state_name(enum queue_state state)
{
    return state_names[state];
}

int queue_state_parse(const char *name)
{
    for (int i = 0; i < QUEUE_STATE_COUNT; i++) {
        if (strcmp(name, state_names[i]) == 0)
            return i;
    }
    return -1;
}
