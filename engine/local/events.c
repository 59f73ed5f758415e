#include "engine/local/events.h"

#include <assert.h>

void events_push(struct events *q, const struct event *event)
{
    assert(q->n < q->cap);
    q->at[(q->first + q->n) % q->cap] = *event;
    q->n++;
}

bool events_pop(struct events *q, struct event *ret)
{
    if (q->n == 0)
        return false;
    *ret = q->at[q->first];
    q->first = (q->first + 1) % q->cap;
    q->n--;
    return true;
}

void events_drop(struct events *q, const struct sequence *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < q->n; i++) {
        const struct event event = q->at[(q->first + i) % q->cap];
        if (event.s != s)
            q->at[(q->first + kept++) % q->cap] = event;
    }
    q->n = kept;
}
