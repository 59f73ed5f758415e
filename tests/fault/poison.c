/*
 * One job kills the worker whenever it runs. Here the test does the killing: it watches, and when
 * that job is running the worker dies before the job has got anywhere, as if the job had done it.
 */
#include <signal.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"

#define GOOD_JOBS 9
#define WORKER DRILL_RUN "--slots 8 --chunk 4 --drain --hook 'cat >>told.txt; echo >>told.txt'"

static enum queue_state state_of(struct queue *q, const char *custom_id)
{
    struct error e = {0};
    struct queue_requests list = {0};
    enum queue_state state = QUEUE_STATE_COUNT;
    CHECK_OK(queue_requests(q, &(struct queue_filter){0}, &list, &e), &e);
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.item[i].custom_id, custom_id) == 0)
            state = list.item[i].state;
    }
    queue_requests_release(&list);
    CHECK(state != QUEUE_STATE_COUNT);
    return state;
}

/* One life of the worker; whether it died of the poison. The life that finds it failed says so. */
static bool dies(struct queue *q)
{
    pid_t pid = drill_start("poison.db", WORKER);
    while (drill_alive(pid)) {
        /* What a dead worker ran stays running until the next one has taken its place. */
        if (drill_is_worker(q, pid) && state_of(q, "poison") == QUEUE_RUNNING) {
            kill(pid, SIGKILL);
            CHECK_INT(drill_wait(pid), 128 + SIGKILL);
            return true;
        }
        clock_sleep_us(2000);
    }
    CHECK_INT(drill_wait(pid), 1);
    return false;
}

TEST(poison_fails_after_its_third_death_alone_and_every_other_job_is_done)
{
    const struct drill_jobs jobs = {.n = GOOD_JOBS, .max_tokens = 20, .name = "good"};
    int deaths = 0;
    drill_model(2048);
    /* Its prompt is long: it is caught while it is being read, before any progress. */
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_add_job("jobs.jsonl", "poison", 380, 100);
    drill_submit("poison.db", "jobs.jsonl");
    struct queue *q = drill_open("poison.db");
    while (dies(q))
        CHECK(++deaths < 12);
    CHECK(deaths >= 3);
    struct queue_counts counts = drill_counts(q);
    CHECK_INT(counts.total, GOOD_JOBS + 1);
    CHECK_INT(counts.state[QUEUE_DONE], GOOD_JOBS);
    CHECK_INT(state_of(q, "poison"), QUEUE_FAILED);
    queue_close(q);
    CHECK_INT(drill("poison.db", "export -o good.jsonl --errors bad.jsonl"), 1);
    CHECK_INT(drill_count("bad.jsonl", "\"custom_id\":\"poison\""), 1);
    CHECK_INT(drill_count("bad.jsonl", "worker_crashed"), 1);
    CHECK_INT(drill_count("good.jsonl", "\"custom_id\":\"good-"), GOOD_JOBS);
    /* A hook is told of it, once. */
    CHECK_INT(drill_count("told.txt", "\"code\":\"worker_crashed\""), 1);
    CHECK_INT(drill_count("told.txt", "\"custom_id\":\"poison\""), 1);
    test_note("%d deaths", deaths);
}
