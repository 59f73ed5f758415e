#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/queue/help.h"

static const struct queue_worker_options quick = {
    .beat_ms = 20, .lease_ms = 200, .planned_bytes = 3000};

static void pause_for_ever(void)
{
    for (;;)
        pause();
}

/* A lease that a busy machine does not miss, for those who must not be superseded. */
static const struct queue_worker_options patient = {.beat_ms = 50, .lease_ms = 8000};

/* A worker that claims, beats and lives until it is killed. */
static int live(void *arg, int tell)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_claims c;
    help_claim(w, *(size_t *)arg, &c);
    CHECK_OK(queue_worker_beat(w, NULL, NULL, &e), &e);
    help_tell(tell);
    pause_for_ever();
    return 0;
}

TEST(queue_worker_a_second_one_is_refused_with_the_pid)
{
    struct error e = {0};
    size_t n = 1;
    char want[64];
    struct queue_worker *w = NULL;
    struct queue *q = help_open(DB);
    pid_t child = help_fork_until(live, &n);
    snprintf(want, sizeof(want), "process %d is its worker", (int)child);
    int64_t start_us = clock_mono_us();
    CHECK_ERROR(queue_worker_open(q, &patient, NULL, NULL, &w, &e), &e, ERROR_LOCKED, want);
    CHECK(clock_mono_us() - start_us < 7000000); /* a moving beat is enough: no lease to wait for */
    struct queue_status s;
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK(s.worker.present && s.worker.alive);
    CHECK_INT(s.worker.pid, child);
    CHECK(s.worker.beat_age_ms >= 0 && s.worker.beat_age_ms < 10000);
    queue_status_release(&s);
    help_kill(child);
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK(s.worker.present && !s.worker.alive);
    queue_status_release(&s);
    queue_close(q);
}

TEST(queue_worker_a_dead_one_is_replaced_at_once)
{
    struct error e = {0};
    size_t n = 3;
    struct queue *q = help_open(DB);
    struct queue_worker *w = NULL;
    help_submit(q, 5, 1);
    help_kill(help_fork_until(live, &n));
    CHECK_INT(help_counts(q).state[QUEUE_RUNNING], 3);
    const struct queue_worker_options slow = {.beat_ms = 60000, .lease_ms = 600000};
    CHECK_OK(queue_worker_open(q, &slow, NULL, NULL, &w, &e), &e);
    CHECK_INT(help_counts(q).state[QUEUE_RUNNING], 0);
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 5);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_worker_a_forward_clock_jump_supersedes_nobody)
{
    struct error e = {0};
    size_t n = 1;
    struct queue_worker *w = NULL;
    struct queue *q = help_open(DB);
    pid_t child = help_fork_until(live, &n);
    clock_test_shift(86400000000, 86400000000);
    CHECK_ERROR(queue_worker_open(q, &patient, NULL, NULL, &w, &e), &e, ERROR_LOCKED,
                "is its worker");
    help_kill(child);
    queue_close(q);
}

static void set_flag(void *ctx)
{
    *(volatile sig_atomic_t *)ctx = 1;
}

static int live_until_fenced(void *arg, int tell)
{
    static volatile sig_atomic_t fenced;
    struct error e = {0};
    (void)arg;
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_claims c;
    if (help_claim(w, 2, &c) != 2)
        return 10;
    help_tell(tell);
    raise(SIGSTOP);
    void *flag = (void *)(uintptr_t)&fenced;
    CHECK_OK(queue_worker_beat(w, set_flag, flag, &e), &e);
    for (int i = 0; i < 1000 && !fenced; i++)
        usleep(10000);
    if (!fenced || !queue_worker_fenced(w))
        return 11;
    if (queue_worker_status(w, str_of("{}"), &e) != -ERROR_FENCED)
        return 12;
    queue_claims_release(&c);
    queue_worker_close(w, str_of("fenced"));
    queue_close(q);
    return 3;
}

TEST(queue_worker_that_stopped_beating_is_superseded_and_fenced)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit(q, 2, 1);
    pid_t child = help_fork_until(live_until_fenced, NULL);
    usleep(20000);
    int64_t start_us = clock_mono_us();
    struct queue_worker *w = help_worker(q);
    CHECK(clock_mono_us() - start_us >= 200000); /* watched one whole lease */
    CHECK_INT(help_counts(q).state[QUEUE_RUNNING], 0);
    kill(child, SIGCONT);
    CHECK_INT(help_wait(child), 3);
    struct queue_status s; /* the old one's close changed nothing */
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK_INT(s.worker.pid, getpid());
    queue_status_release(&s);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

TEST(queue_worker_does_not_supersede_where_both_do_not_fit)
{
    struct error e = {0};
    char want[64];
    struct queue_worker *w = NULL;
    struct queue *q = help_open(DB);
    help_submit(q, 2, 1);
    pid_t child = help_fork_until(live_until_fenced, NULL);
    struct queue_worker_options opt = quick;
    opt.available_bytes = 3999; /* the old one holds 1000 */
    snprintf(want, sizeof(want), "kill -9 %d", (int)child);
    CHECK_ERROR(queue_worker_open(q, &opt, NULL, NULL, &w, &e), &e, ERROR_BUSY, want);
    error_clear(&e);
    CHECK_ERROR(queue_worker_open(q, &opt, always, NULL, &w, &e), &e, ERROR_INTERRUPTED, "stopped");
    opt.available_bytes = 4000;
    CHECK_OK(queue_worker_open(q, &opt, NULL, NULL, &w, &e), &e);
    queue_worker_close(w, str_of("done"));
    help_kill(child);
    queue_close(q);
}

TEST(queue_worker_close_gives_running_jobs_back)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_claims c;
    help_submit(q, 4, 1);
    CHECK_INT(help_claim(w, 3, &c), 3);
    CHECK_OK(queue_worker_status(w, str_of("{\"model\":\"m\"}"), &e), &e);
    queue_worker_close(w, str_of("stopped"));
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 4);
    struct queue_show show;
    CHECK_OK(queue_show(q, c.item[0].request, &show, &e), &e);
    CHECK(!show.job[0].suspect);
    CHECK_STR(show.job[0].attempt[0].end, "released");
    queue_show_release(&show);
    queue_claims_release(&c);
    queue_worker_close(NULL, str_of(""));
    queue_close(q);
}

TEST(queue_worker_survives_failing_allocations)
{
    struct queue *q = help_open(DB);
    help_submit(q, 2, 1);
    for (long k = 1;; k++) {
        struct queue_worker *w = NULL;
        struct error e = {0};
        struct queue_claims c = {0};
        mem_fail_after(k);
        int rc = queue_worker_open(q, &quick, NULL, NULL, &w, &e);
        if (rc == 0)
            rc = queue_claim(w, 2, &c, &e);
        mem_fail_after(0);
        if (rc != 0) {
            CHECK_INT(rc, -ERROR_NOMEM);
            CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 2); /* a failed claim is no claim */
        }
        queue_claims_release(&c);
        queue_worker_close(w, str_of("done"));
        if (rc == 0)
            break;
    }
    queue_close(q);
}

/* ---- claims ---- */

TEST(queue_claim_takes_priority_then_deadline_then_arrival)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    static const char *const want[] = {"high", "soon", "late", "low1", "low2", "lowest"};
    const struct queue_batch_options opt = {.name = str_of("order")};
    int64_t now_us = clock_wall_us();
    const struct queue_new_request rows[] = {
        {.custom_id = str_of("lowest"), .priority = -5},
        {.custom_id = str_of("low1")},
        {.custom_id = str_of("late"), .deadline_us = now_us + 9000000000},
        {.custom_id = str_of("low2")},
        {.custom_id = str_of("soon"), .deadline_us = now_us + 8000000000},
        {.custom_id = str_of("high"), .priority = 5},
    };
    struct queue_submit *s;
    struct queue_id id;
    bool found;
    CHECK_OK(queue_submit_begin(q, &opt, &s, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_OK(queue_submit_add(s, &rows[i], &e), &e);
    CHECK_OK(queue_submit_publish(s, NULL, false, &id, &found, &e), &e);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 4, &c), 4);
    for (size_t i = 0; i < c.n; i++)
        CHECK_STR(c.item[i].custom_id, want[i]);
    queue_claims_release(&c);
    CHECK_INT(help_claim(w, 4, &c), 2);
    for (size_t i = 0; i < c.n; i++)
        CHECK_STR(c.item[i].custom_id, want[4 + i]);
    queue_claims_release(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_claim_brings_body_endpoint_and_progress)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 1, 5000);
    struct queue_claim c = help_claim_one(w);
    CHECK_INT(c.body_bytes, 5000);
    CHECK_INT(strlen(c.body), 5000);
    CHECK_STR(c.endpoint, "/v1/chat/completions");
    CHECK_STR(c.role, "answer");
    CHECK_INT(c.attempt, 1);
    CHECK(memcmp(&c.batch, &batch, sizeof(batch)) == 0);
    CHECK(!c.progress && c.progress_bytes == 0 && c.fingerprint[0] == 0);
    CHECK(c.created_us > 0 && c.deadline_us == 0);
    CHECK(!help_progress(q, &c, "one"));
    CHECK(!help_progress(q, &c, ""));
    CHECK(!help_progress(q, &c, "two"));
    queue_worker_close(w, str_of("stop"));
    w = help_worker(q);
    help_free_claim(&c);
    c = help_claim_one(w);
    CHECK_STR(c.progress, "onetwo");
    CHECK_INT(c.progress_bytes, 6);
    CHECK_INT(c.fingerprint[2], 3);

    bool refused = true;
    const uint8_t other[32] = {7};
    struct queue_progress p = {
        .job = c.job, .attempt = c.attempt, .fingerprint = other, .bytes = str_of("x")};
    CHECK_ERROR(queue_progress_append(q, &p, 1, &e), &e, ERROR_CONFLICT, "fingerprint");
    CHECK_OK(
        queue_progress_discard(q, c.job, c.attempt, str_of("another \"model\"\n"), &refused, &e),
        &e);
    CHECK(!refused);
    CHECK_OK(queue_progress_append(q, &p, 1, &e), &e);
    CHECK_OK(queue_check_attempts(q, &p, 1, &e), &e);
    CHECK(!p.refused);
    queue_worker_close(w, str_of("stop"));
    CHECK_OK(queue_check_attempts(q, &p, 1, &e), &e);
    CHECK(p.refused);
    w = help_worker(q);
    help_free_claim(&c);
    c = help_claim_one(w);
    CHECK_STR(c.progress, "x");
    CHECK_INT(c.fingerprint[0], 7);
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_claim_gives_nothing_while_paused)
{
    struct error e = {0};
    bool paused = false;
    struct buf why;
    struct queue_claims c;
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 1, 1);
    CHECK_OK(queue_pause(q, str_of("the disk is full"), &e), &e);
    CHECK_INT(help_claim(w, 1, &c), 0);
    queue_close(help_open(DB));
    buf_init(&why, 100);
    CHECK_OK(queue_paused(q, &paused, &why, &e), &e);
    CHECK(paused);
    CHECK_STR(why.ptr, "the disk is full");
    buf_release(&why);
    CHECK_OK(queue_resume(q, &e), &e);
    CHECK_OK(queue_paused(q, &paused, NULL, &e), &e);
    CHECK(!paused);
    CHECK_INT(help_claim(w, 1, &c), 1);
    queue_claims_release(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_end_retry_comes_back_later_each_time_longer)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 1, 1);
    for (int i = 0; i < 4; i++) {
        struct queue_status s;
        struct queue_claims none;
        struct queue_claim c = help_claim_one(w);
        bool more;
        CHECK_INT(c.retries, i);
        CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_RETRY));
        help_free_claim(&c);
        CHECK_OK(queue_scan(q, &more, &e), &e);
        CHECK_INT(help_claim(w, 1, &none), 0);
        CHECK_OK(queue_status(q, NULL, &s, &e), &e);
        int64_t wait_us = s.next_not_before_us - clock_wall_us();
        queue_status_release(&s);
        CHECK(wait_us > (1000000LL << i) - 900000 && wait_us <= (1500000LL << i));
        clock_test_shift((1600000LL << (i + 1)), 0);
        CHECK_OK(queue_scan(q, &more, &e), &e);
    }
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
