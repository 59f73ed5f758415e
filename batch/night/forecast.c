/* What is left, and when that will be done going by how fast this night was. */
#include "base/clock.h"
#include "batch/night/parts.h"
#include "batch/view.h"
#include "batch/window.h"

/* Longer than anybody waits, and a number that adds up. */
#define LONGEST_US 1e15

/* The windows of the last run, as it was told them; it is the one that goes on. */
static void read_windows(const struct night *n, struct windows *ret)
{
    const cJSON *list = cJSON_GetObjectItem(n->run[n->n_runs - 1].configuration, "window");
    const cJSON *one;
    cJSON_ArrayForEach(one, list)
    {
        if (cJSON_IsString(one))
            (void)windows_add(ret, one->valuestring, NULL);
    }
}

int night_forecast(struct queue *q, struct night *n, struct error *e)
{
    int rc = queue_status(q, NULL, &n->status, e);
    if (rc)
        return rc;
    struct windows windows = {0};
    const double left = (double)view_unfinished(&n->status.counts);
    const double finished = (double)(n->sums.done + n->sums.failed);
    n->jobs_per_s = n->course.busy_us > 0 && finished > 0
                        ? finished * 1e6 / (double)n->course.busy_us
                        : n->status.rates.requests_per_s;
    n->work_us = left > 0 ? -1 : 0;
    if (left <= 0 || n->jobs_per_s <= 0)
        return 0;
    n->work_us = (int64_t)MIN_OF(left / n->jobs_per_s * 1e6, LONGEST_US);
    read_windows(n, &windows);
    n->windowed = windows.n > 0;
    if (n->status.paused || !(n->status.worker.alive || n->windowed))
        return 0;
    n->done_us = windows_after(&windows, clock_wall_us(), n->work_us);
    if (n->done_us == WINDOW_NEVER)
        n->done_us = 0;
    return 0;
}
