/* The budget, and whether the model fits it and what is there now. */
#include <stdio.h>

#include "batch/doctor/doctor.h"
#include "batch/host/cgroup.h"
#include "batch/host/memory.h"
#include "batch/worker/guard.h"

void doctor_budget(struct doctor *d)
{
    char size[24];
    if (d->status.worker.alive)
        return;
    if (!d->ledger) {
        doctor_say(d, DOCTOR_PROBLEM, "give a --memory that the machine and its limits have", "%s",
                   d->budget_error.text);
        return;
    }
    doctor_say(d, DOCTOR_OK, NULL, "%s%s%s", str_format_size(ledger_limit(d->ledger), size),
               *d->budget_from ? ": " : "", d->budget_from);
    doctor_value(d, "bytes", (double)ledger_limit(d->ledger));
}

/* A plan that fits the budget may still not fit what is there at the moment. */
static void look_at_now(struct doctor *d, uint64_t plan_bytes)
{
    struct memory m;
    struct cgroup_memory group;
    struct guard_shortage s;
    char plan[24], have[24];
    if (!memory_read(d->root, &m))
        return;
    cgroup_memory(d->root, &group);
    if (!guard_fits(plan_bytes, &m, &group, &s))
        doctor_say(d, DOCTOR_WARNING,
                   "end what holds memory, or run with --memory-busy ignore: else the worker waits",
                   "the plan takes %s, but %s has %s left now", str_format_size(plan_bytes, plan),
                   s.of, str_format_size(s.have_bytes, have));
}

void doctor_model(struct doctor *d)
{
    struct engine_plan p;
    struct engine_info info;
    struct error why = {0};
    char total[24], limit[24];
    if (d->status.worker.alive) {
        doctor_say(d, DOCTOR_OK, NULL,
                   "a worker runs, with %s planned; no other is planned beside it",
                   str_format_size(d->status.worker.planned_bytes, total));
        return;
    }
    if (!d->model_path) {
        doctor_say(d, DOCTOR_NOTE, "nocturne doctor -m FILE", "none was named, none was looked at");
        return;
    }
    if (!d->model) {
        if (d->ledger)
            doctor_say(d, DOCTOR_PROBLEM, "give another file with -m, or see 'nocturne verify'",
                       "%s", d->model_error.text);
        return;
    }
    engine_describe(d->model, &info);
    engine_plan(d->model, &p);
    if (engine_plan_check(d->model, &why) != 0) {
        doctor_say(d, DOCTOR_PROBLEM, "'nocturne inspect' shows what it takes", "%s", why.text);
        return;
    }
    doctor_say(d, DOCTOR_OK, NULL, "%s fits: %s of %s, for %u sequence%s of %u tokens",
               *info.name ? info.name : info.arch, str_format_size(p.total_bytes, total),
               str_format_size(p.limit_bytes, limit), p.slots, p.slots == 1 ? "" : "s", p.ctx);
    doctor_value(d, "plan_bytes", (double)p.total_bytes);
    look_at_now(d, p.total_bytes);
}
