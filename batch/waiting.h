/*
 * Waiting for changes of the queue without keeping the disk awake: commands that follow it sleep, poll
 * the watch (microseconds), and look again when somebody committed, or after a while anyway: times
 * that come due change nothing in the file.
 */
#ifndef BATCH_WAITING_H
#define BATCH_WAITING_H

#include <stdint.h>

#include "base/error.h"
#include "queue/queue.h"

#define WAITING_POLL_US 200000
#define WAITING_SWEEP_US 30000000

/* Returns 0 after a change, a sweep's time, or when `until_us` (monotonic, 0: never) has come. */
int waiting_for_change(struct queue_watch *w, int64_t until_us, struct error *e);

#endif
