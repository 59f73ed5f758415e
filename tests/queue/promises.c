/* The queue's five promises, each with a test of its name. */
#include <signal.h>
#include <unistd.h>

#include "tests/queue/help.h"

/* Ends two of three claims, hangs where no transaction is open, and then tries to go on. */
static int hang_and_go_on(void *arg, int tell)
{
    (void)arg;
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_claims c;
    if (help_claim(w, 3, &c) != 3)
        return 10;
    help_end(q, c.item[0].job, c.item[0].attempt, QUEUE_END_DONE);
    help_end(q, c.item[1].job, c.item[1].attempt, QUEUE_END_DONE);
    help_tell(tell);
    raise(SIGSTOP);
    if (!help_progress(q, &c.item[2], "stale") ||
        !help_end(q, c.item[2].job, c.item[2].attempt, QUEUE_END_DONE))
        return 11;
    queue_claims_release(&c);
    if (queue_claim(w, 1, &c, &e) != -ERROR_FENCED || !queue_worker_fenced(w))
        return 12;
    queue_worker_close(w, str_of("fenced"));
    queue_close(q);
    return 3;
}

TEST(queue_promise_1_a_job_belongs_to_at_most_one_live_attempt)
{
    struct error e = {0};
    int seen[31] = {0};
    struct queue *q = help_open(DB);
    help_submit(q, 30, 10);
    pid_t first = help_fork_until(hang_and_go_on, NULL);
    struct queue_worker *w = help_worker(q); /* watches for a lease, then supersedes */
    struct queue_claims c;
    while (help_claim(w, 5, &c) > 0) {
        for (size_t i = 0; i < c.n; i++) {
            CHECK_INT(seen[c.item[i].job]++, 0);
            if (c.item[i].job == 3)
                CHECK_INT(c.item[i].attempt, 2);
        }
        CHECK_INT(seen[1] + seen[2], 0); /* those were done */
        if (seen[3] == 1 && first) {
            kill(first, SIGCONT);
            CHECK_INT(help_wait(first), 3);
            first = 0;
        }
        for (size_t i = 0; i < c.n; i++)
            CHECK(!help_end(q, c.item[i].job, c.item[i].attempt, QUEUE_END_DONE));
        queue_claims_release(&c);
    }
    CHECK_INT(first, 0);
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 30);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_promise_2_a_stale_attempts_write_is_refused_and_changes_nothing)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit(q, 1, 10);
    struct queue_worker *w = help_worker(q);
    struct queue_claim old = help_claim_one(w);
    CHECK(!help_progress(q, &old, "abc"));
    CHECK(!help_end(q, old.job, old.attempt, QUEUE_END_RELEASE));
    CHECK(help_progress(q, &old, "stale")); /* queued: nobody's */
    struct queue_claim now = help_claim_one(w);
    CHECK_INT(now.job, old.job);
    CHECK_INT(now.attempt, old.attempt + 1);
    CHECK_STR(now.progress, "abc");

    bool refused = false;
    CHECK(help_progress(q, &old, "stale"));
    CHECK(help_end(q, old.job, old.attempt, QUEUE_END_DONE));
    CHECK(help_end(q, old.job, old.attempt, QUEUE_END_FAILED));
    CHECK(help_end(q, old.job, old.attempt, QUEUE_END_RETRY));
    CHECK(help_end(q, old.job, old.attempt, QUEUE_END_RELEASE));
    CHECK_OK(queue_progress_discard(q, old.job, old.attempt, str_of("stale"), &refused, &e), &e);
    CHECK(refused);

    struct queue_show show;
    CHECK_OK(queue_show(q, old.request, &show, &e), &e);
    CHECK_INT(show.request.state, QUEUE_RUNNING);
    CHECK_INT(show.job[0].n_attempts, 2);
    CHECK_STR(show.job[0].attempt[0].end, "released");
    CHECK(!show.result_json && !show.job[0].attempt[1].end);
    queue_show_release(&show);
    CHECK(!help_end(q, now.job, now.attempt, QUEUE_END_DONE));
    help_free_claim(&old);
    help_free_claim(&now);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_promise_3_a_done_job_never_runs_again)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_id batch = help_submit(q, 2, 10);
    struct queue_worker *w = help_worker(q);
    struct queue_claim c = help_claim_one(w);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    CHECK(help_end(q, c.job, c.attempt, QUEUE_END_RELEASE));
    CHECK(help_end(q, c.job, c.attempt, QUEUE_END_RETRY));
    uint64_t n = 9;
    const struct queue_target t = {QUEUE_KIND_BATCH, batch};
    CHECK_OK(queue_hold(q, t, true, &n, &e), &e);
    CHECK_INT(n, 1); /* the other one */
    CHECK_OK(queue_hold(q, t, false, &n, &e), &e);
    CHECK_OK(queue_cancel(q, t, &n, &e), &e);
    CHECK_INT(n, 1);
    queue_worker_close(w, str_of("done"));

    w = help_worker(q);
    struct queue_claims none;
    CHECK_INT(help_claim(w, 8, &none), 0);
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 1);
    /* A retry is another job; the old one stays what it is. */
    CHECK_OK(queue_retry(q, c.request, str_of("{}"), &e), &e);
    struct queue_claim again = help_claim_one(w);
    CHECK(again.job != c.job);
    CHECK_STR(again.body, "{}");
    help_free_claim(&c);
    help_free_claim(&again);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

/* Works and submits until it is killed; tells when it begins, or at once for a kill while it starts. */
static int busy_life(void *arg, int tell)
{
    bool tell_early = *(const bool *)arg;
    if (tell_early)
        help_tell(tell);
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    if (!tell_early)
        help_tell(tell);
    while (!queue_worker_fenced(w)) {
        struct queue_claims c;
        help_claim(w, 4, &c);
        for (size_t i = 0; i < c.n; i++) {
            help_progress(q, &c.item[i], "tokens");
            help_end(q, c.item[i].job, c.item[i].attempt, (enum queue_end_kind)(i % 4));
        }
        queue_claims_release(&c);
        help_submit(q, 3, 2000);
    }
    return 0;
}

static void kill_and_check(int n_kills)
{
    SKIP_EMULATED("kills at instants, which come too early there");
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit(q, 20, 100);
    for (int i = 0; i < n_kills; i++) {
        bool tell_early = i % 3 == 2;
        pid_t child = help_fork_until(busy_life, &tell_early);
        usleep((useconds_t)(i * 7919 % (tell_early ? 10000 : 40000)));
        help_kill(child);
        CHECK_OK(queue_integrity(q, &e), &e);
        struct queue_counts c = help_counts(q);
        uint64_t sum = 0;
        for (int s = 0; s < QUEUE_STATE_COUNT; s++)
            sum += c.state[s];
        CHECK_INT(sum, c.total);
    }
    /* The next worker goes on with everything that is left. */
    struct queue_worker *w = help_worker(q);
    CHECK_INT(help_counts(q).state[QUEUE_RUNNING], 0);
    CHECK(help_counts(q).state[QUEUE_DONE] > 0);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST_FOR(queue_promise_4_after_a_crash_at_any_instant_every_job_is_in_exactly_one_state, 120)
{
    kill_and_check(25);
}

LONG_TEST(queue_long_promise_4_holds_for_500_kills)
{
    kill_and_check(500);
}

static void check_lines(struct queue *q, struct queue_id batch, int n_want)
{
    struct error e = {0};
    struct queue_results r;
    int64_t key = 0;
    int n = 0;
    do {
        CHECK_OK(queue_results(q, &batch, key, 3, &r, &e), &e);
        for (size_t i = 0; i < r.n; i++, n++) {
            char want[16];
            snprintf(want, sizeof(want), "r%d", n);
            CHECK_STR(r.item[i].custom_id, want);
            CHECK((r.item[i].state == QUEUE_DONE || r.item[i].state == QUEUE_FAILED) ==
                  (r.item[i].json != NULL));
        }
        key = r.next_key;
        bool more = r.more;
        queue_results_release(&r);
        if (!more)
            break;
    } while (true);
    CHECK_INT(n, n_want);
}

TEST(queue_promise_5_the_export_of_a_finished_batch_has_one_line_per_input_line)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_id batch = help_submit(q, 10, 10);
    help_submit(q, 5, 10); /* another batch stays out of it */
    struct queue_worker *w = help_worker(q);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 8, &c), 8);
    for (size_t i = 0; i < 7; i++)
        help_end(q, c.item[i].job, c.item[i].attempt, i % 2 ? QUEUE_END_DONE : QUEUE_END_FAILED);
    queue_claims_release(&c);
    uint64_t n;
    const struct queue_target t = {QUEUE_KIND_BATCH, batch};
    CHECK_OK(queue_cancel(q, t, &n, &e), &e);
    CHECK_INT(n, 3);
    struct queue_batches b;
    CHECK_OK(queue_batch(q, batch, &b, &e), &e);
    CHECK(b.item[0].finished_us > 0);
    CHECK_INT(b.item[0].counts.total, 10);
    queue_batches_release(&b);
    check_lines(q, batch, 10);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
