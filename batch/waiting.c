#include "batch/waiting.h"

#include "base/clock.h"
#include "base/compiler.h"

int waiting_for_change(struct queue_watch *w, int64_t until_us, struct error *e)
{
    int64_t sweep_us = clock_mono_us() + WAITING_SWEEP_US;
    int64_t end_us = until_us ? MIN_OF(until_us, sweep_us) : sweep_us;
    bool changed = false;
    for (;;) {
        int rc = queue_watch_poll(w, &changed, e);
        int64_t left_us = end_us - clock_mono_us();
        if (rc || changed || left_us <= 0)
            return rc;
        clock_sleep_us(MIN_OF(left_us, (int64_t)WAITING_POLL_US));
    }
}
