#include "batch/worker/gate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "batch/worker/parts.h"

static const struct {
    const char *name;
    int (*ask)(struct worker *, struct gate_view *, struct error *);
} gates[] = {
#define GATE(name) {#name, gate_##name},
#include "batch/worker/gates.def"
#undef GATE
};

void gate_text(char out[GATE_TEXT_BYTES], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, GATE_TEXT_BYTES, fmt, args);
    va_end(args);
}

static int ask(struct worker *w, struct gate_view *ret, struct error *e)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
        struct gate_view view = {0};
        int rc = gates[i].ask(w, &view, e);
        if (rc)
            return rc;
        view.name = gates[i].name; /* gates write the whole of it */
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

static void note(struct worker *w, const struct gate_view *now, size_t n_jobs)
{
    static const char *const stands[] = {"open", "finish", "hold", "shut"};
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "stand", stands[now->stand]);
    cJSON_AddStringToObject(o, "text", now->stand == GATE_OPEN ? "resumed" : now->why);
    cJSON_AddNumberToObject(o, "given_back", (double)n_jobs);
    worker_note(w, "gate", o);
    worker_record_soon(w);
}

int worker_gates(struct worker *w, struct error *e)
{
    struct gate_view now;
    int rc = ask(w, &now, e);
    const size_t n_jobs = w->n_used;
    if (rc == 0)
        rc = obey(w, now.stand, e);
    if (rc)
        return rc;
    const bool told = now.stand == w->gate.stand && strcmp(now.why, w->gate.why) == 0;
    w->gate = now;
    if (told)
        return 0;
    report_say(&w->report, LOG_INFO, "%s", now.stand == GATE_OPEN ? "resumed" : now.why);
    note(w, &now, n_jobs - w->n_used);
    worker_tell(w, now.stand == GATE_OPEN ? "working" : now.why);
    worker_hook_gate(w);
    return 0;
}
