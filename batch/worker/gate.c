#include "batch/worker/gate.h"

#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "batch/worker/parts.h"

static int (*const gates[])(struct worker *, struct gate_view *, struct error *) = {
#define GATE(name) gate_##name,
#include "batch/worker/gates.def"
#undef GATE
};

static int ask(struct worker *w, struct gate_view *ret, struct error *e)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
        struct gate_view view = {0};
        int rc = gates[i](w, &view, e);
        if (rc)
            return rc;
        if (view.stand > ret->stand)
            *ret = view;
    }
    return 0;
}

static int obey(struct worker *w, enum gate_stand stand, struct error *e)
{
    if (!w->engine || stand < GATE_HOLD)
        return 0;
    w->leaving_us = clock_mono_us();
    int rc = w->n_used ? worker_give_back(w, e) : 0;
    w->leaving_us = 0;
    if (rc == 0 && stand == GATE_SHUT)
        worker_unload(w);
    return rc;
}

int worker_gates(struct worker *w, struct error *e)
{
    struct gate_view now;
    int rc = ask(w, &now, e);
    if (rc == 0)
        rc = obey(w, now.stand, e);
    if (rc)
        return rc;
    const bool told = now.stand == w->gate.stand && strcmp(now.why, w->gate.why) == 0;
    w->gate = now;
    if (told)
        return 0;
    report_say(&w->report, LOG_INFO, "%s", now.stand == GATE_OPEN ? "resumed" : now.why);
    worker_tell(w, now.stand == GATE_OPEN ? "working" : now.why);
    return 0;
}
