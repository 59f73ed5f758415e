/*
 * The worker is killed at random instants, again and again. At the end every request has exactly one
 * result, equal to an undisturbed run's, none failed, and the database is whole.
 */
#include <signal.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "batch/night/night.h"
#include "tests/fault/kit.h"

#define JOBS 50
#define WINDOW_MAX_US INT64_C(1500000)
#define WORKER DRILL_RUN "--slots 8 --drain"

struct storm {
    int kills;       /* to be made */
    int n_vocab;     /* the size of the model */
    int max_tokens;  /* both together: how much work there is */
    int window_part; /* a worker lives for at most this part of the undisturbed run's time */
};

/*
 * Kills a worker at a random instant within window_us of its start; `hit`: it had jobs in flight.
 * False when it had drained the queue before that.
 */
static bool kill_one(struct queue *q, int64_t window_us, uint64_t number, int *hit)
{
    pid_t pid = drill_start("stormy.db", WORKER);
    clock_sleep_us((int64_t)(rng_u64(99, number) % (uint64_t)window_us));
    if (!drill_alive(pid)) {
        CHECK_INT(drill_wait(pid), 0);
        return false;
    }
    kill(pid, SIGKILL);
    CHECK_INT(drill_wait(pid), 128 + SIGKILL);
    *hit += drill_counts(q).state[QUEUE_RUNNING] > 0;
    return true;
}

static int kill_workers(const struct storm *s, int64_t window_us, int *hit)
{
    struct queue *q = drill_open("stormy.db");
    int killed = 0;
    while (killed < s->kills && kill_one(q, window_us, (uint64_t)killed, hit))
        killed++;
    queue_close(q);
    return killed;
}

/* The report has each death, and each job once; of a worker that died early there may be no run. */
static void check_record(int killed)
{
    struct error e = {0};
    struct night *n = NULL;
    struct queue *q = drill_open("stormy.db");
    CHECK_OK(night_open(q, &(struct night_choice){.since_us = 1}, &n, &e), &e);
    CHECK(n->n_runs > 1 && n->n_runs <= (size_t)killed + 1);
    size_t n_died = 0;
    for (size_t i = 0; i + 1 < n->n_runs; i++)
        n_died += strcmp(n->run[i].run.why, "died") == 0;
    CHECK(n_died + 2 >= n->n_runs); /* one may have been killed after it had said how it ended */
    CHECK_STR(n->run[n->n_runs - 1].run.why, "drained");
    CHECK_INT(n->run[n->n_runs - 1].run.status, 0);
    CHECK_INT(n->sums.done, JOBS);
    CHECK_INT(n->sums.failed + n->sums.running, 0);
    CHECK(n->sums.died > 0);
    CHECK_INT(n->sums.attempts, n->sums.done + n->sums.died + n->sums.released + n->sums.retried);
    night_free(n);
    queue_close(q);
}

static void kill_loop(const struct storm *s)
{
    const struct drill_jobs jobs = {.n = JOBS, .max_tokens = s->max_tokens, .name = "job"};
    int hit = 0;
    drill_model((unsigned)s->n_vocab);
    drill_write_jobs("jobs.jsonl", &jobs);
    int64_t began_us = clock_mono_us();
    char *calm = drill_calm_answers("jobs.jsonl", "job", JOBS);
    int64_t window_us = MIN_OF((clock_mono_us() - began_us) / s->window_part, WINDOW_MAX_US);

    drill_submit("stormy.db", "jobs.jsonl");
    int killed = kill_workers(s, window_us, &hit);
    CHECK_INT(drill("stormy.db", WORKER), 0);
    char *stormy = drill_answers("stormy.db", "job", JOBS);
    CHECK_STR(stormy, calm);
    drill_check_all_done("stormy.db", JOBS);
    test_note("%d kills within %d ms, %d with jobs in flight, %d answers as undisturbed, "
              "%lld tokens resumed",
              killed, (int)(window_us / 1000), hit, JOBS, (long long)drill_resumed("stormy.db"));
    CHECK_INT(killed, s->kills);
    check_record(killed);
    CHECK(hit >= s->kills / 2);
    mem_free(calm);
    mem_free(stormy);
}

TEST(kill_the_worker_a_few_times)
{
    kill_loop(&(struct storm){.kills = 8, .n_vocab = 4096, .max_tokens = 80, .window_part = 5});
}

LONG_TEST(kill_the_worker_200_times)
{
    kill_loop(
        &(struct storm){.kills = 200, .n_vocab = 65536, .max_tokens = 400, .window_part = 50});
}
