#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/queue/help.h"

static struct queue_submit *begin(struct queue *q, const struct queue_batch_options *opt)
{
    struct queue_submit *s = NULL;
    struct error e = {0};
    CHECK_OK(queue_submit_begin(q, opt, &s, &e), &e);
    return s;
}

static int add(struct queue_submit *s, const char *custom_id, uint64_t line, struct error *e)
{
    const struct queue_new_request r = {
        .custom_id = str_of(custom_id), .body = str_of("{}"), .line = line};
    return queue_submit_add(s, &r, e);
}

static const struct queue_batch_options plain = {.endpoint = {"/v1/x", 5}};

TEST(queue_submit_refuses_a_duplicate_custom_id_with_both_lines)
{
    struct queue *q = help_open(DB);
    struct queue_submit *s = begin(q, &plain);
    struct error e = {0};
    struct queue_id id;
    bool found;
    CHECK_OK(add(s, "a", 1, &e), &e);
    CHECK_OK(add(s, "b", 2, &e), &e);
    CHECK_OK(add(s, "a", 3, &e), &e); /* found out when the gathered ones are written */
    CHECK_ERROR(queue_submit_publish(s, NULL, false, &id, &found, &e), &e, ERROR_BADDATA,
                "line 3: custom_id 'a' was used by line 1");
    queue_submit_abort(s);
    CHECK_INT(help_counts(q).total, 0);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_close(q);
}

TEST(queue_submit_finds_the_first_line_in_an_earlier_transaction)
{
    struct queue *q = help_open(DB);
    struct queue_submit *s = begin(q, &plain);
    struct error e = {0};
    char name[32];
    int rc = 0;
    for (uint64_t i = 1; rc == 0 && i <= 2500; i++) {
        snprintf(name, sizeof(name), "n%d", (int)(i == 1700 ? 5 : i));
        rc = add(s, name, i, &e);
    }
    CHECK_INT(rc, -ERROR_BADDATA);
    CHECK(strstr(e.text, "line 1700") && strstr(e.text, "line 5 "));
    queue_submit_abort(s);
    CHECK_INT(help_counts(q).total, 0);
    queue_close(q);
}

TEST(queue_submit_refuses_an_empty_batch)
{
    struct queue *q = help_open(DB);
    struct queue_submit *s = begin(q, &plain);
    struct error e = {0};
    struct queue_id id;
    bool found;
    CHECK_ERROR(queue_submit_publish(s, NULL, false, &id, &found, &e), &e, ERROR_INVALID,
                "no requests");
    queue_submit_abort(s);
    queue_submit_abort(NULL);
    queue_close(q);
}

static struct queue_id submit_same(struct queue *q, bool force, bool *ret_found)
{
    static const uint8_t identity[32] = {9, 9};
    struct error e = {0};
    struct queue_id id;
    struct queue_submit *s = begin(q, &plain);
    CHECK_OK(add(s, "a", 1, &e), &e);
    CHECK_OK(queue_submit_publish(s, identity, force, &id, ret_found, &e), &e);
    return id;
}

TEST(queue_submit_finds_the_unfinished_batch_of_the_same_identity)
{
    bool found = true;
    struct queue *q = help_open(DB);
    struct queue_id first = submit_same(q, false, &found);
    CHECK(!found);
    struct queue_id again = submit_same(q, false, &found);
    CHECK(found);
    CHECK(memcmp(&first, &again, sizeof(first)) == 0);
    CHECK_INT(help_counts(q).total, 1);
    struct queue_id forced = submit_same(q, true, &found);
    CHECK(!found);
    CHECK(memcmp(&first, &forced, sizeof(first)) != 0);

    /* Once both are finished, the same input is another batch. */
    struct queue_worker *w = help_worker(q);
    for (int i = 0; i < 2; i++) {
        struct queue_claim c = help_claim_one(w);
        CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
        help_free_claim(&c);
    }
    again = submit_same(q, false, &found);
    CHECK(!found);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_submit_is_nobodys_before_it_is_published)
{
    struct queue *q = help_open(DB);
    struct queue_submit *s = begin(q, &plain);
    struct error e = {0};
    struct queue_id id;
    struct queue_claims none;
    bool more;
    bool found;
    char name[32];
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        CHECK_OK(add(s, name, 0, &e), &e);
    }
    struct queue_worker *w = help_worker(q);
    CHECK_OK(queue_scan(q, &more, &e), &e);
    CHECK_INT(help_claim(w, 10, &none), 0);
    CHECK_INT(help_counts(q).total, 0);
    struct queue_target t;
    CHECK_ERROR(queue_find(q, str_of("n3"), NULL, &t, &e), &e, ERROR_NOTFOUND, "n3");
    CHECK_OK(queue_submit_publish(s, NULL, false, &id, &found, &e), &e);
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 1500);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

/* Adds until it is killed; batches of various sizes, each published. */
static int submit_for_ever(void *arg)
{
    (void)arg;
    struct queue *q = help_open(DB);
    for (int size = 1; size < 100000; size = size % 4000 + 379)
        help_submit(q, size, 300);
    return 0;
}

static bool is_whole(int n)
{
    for (int size = 1, i = 0; i < 5000; size = size % 4000 + 379, i++) {
        if (size == n)
            return true;
    }
    return false;
}

TEST_FOR(queue_submit_killed_at_random_points_leaves_whole_batches_only, 120)
{
    SKIP_EMULATED("kills at instants, which come too early there");
    struct error e = {0};
    struct queue *q = help_open(DB);
    for (int i = 0; i < 20; i++) {
        pid_t child = help_fork(submit_for_ever, NULL);
        usleep(5000 + (useconds_t)(i * 104729 % 120000));
        help_kill(child);
    }
    struct queue_submit *s = begin(q, &plain); /* deletes what the dead left */
    queue_submit_abort(s);
    CHECK_OK(queue_integrity(q, &e), &e);
    bool more = true;
    while (more)
        CHECK_OK(queue_scan(q, &more, &e), &e);
    struct queue_counts all = help_counts(q);
    CHECK_INT(all.state[QUEUE_QUEUED], all.total);
    uint64_t sum = 0;
    struct queue_batches b;
    int64_t before = 0;
    do {
        CHECK_OK(queue_batches(q, before, 0, &b, &e), &e);
        for (size_t i = 0; i < b.n; i++) {
            uint64_t n = b.item[i].counts.total;
            CHECK(is_whole((int)n));
            CHECK_INT(b.item[i].counts.state[QUEUE_QUEUED], n);
            sum += n;
        }
        before = b.next_key;
        queue_batches_release(&b);
    } while (before);
    CHECK_INT(sum, all.total);
    CHECK(all.total > 0);
    queue_close(q);
}

static int submit_many(void *arg)
{
    (void)arg;
    struct queue *q = help_open(DB);
    for (int i = 0; i < 10; i++)
        help_submit(q, 25, 500);
    queue_close(q);
    return 0;
}

TEST_FOR(queue_submit_8_in_parallel_beside_a_running_worker_lose_nothing, 120)
{
    SKIP_EMULATED("ten processes against the clock");
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    pid_t child[8];
    for (int i = 0; i < 8; i++)
        child[i] = help_fork(submit_many, NULL);
    CHECK_OK(queue_worker_beat(w, NULL, NULL, &e), &e); /* a thread: after the forks */
    int n_done = 0;
    int64_t give_up_us = clock_mono_us() + 50000000;
    while (n_done < 8 * 10 * 25 && clock_mono_us() < give_up_us) {
        struct queue_claims c;
        bool more;
        CHECK_OK(queue_scan(q, &more, &e), &e);
        help_claim(w, 20, &c);
        for (size_t i = 0; i < c.n; i++, n_done++)
            CHECK(!help_end(q, c.item[i].job, c.item[i].attempt, QUEUE_END_DONE));
        queue_claims_release(&c);
    }
    for (int i = 0; i < 8; i++)
        CHECK_INT(help_wait(child[i]), 0);
    CHECK_INT(n_done, 8 * 10 * 25);
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 8 * 10 * 25);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_submit_survives_failing_allocations)
{
    struct queue *q = help_open(DB);
    for (long k = 1;; k++) {
        struct queue_submit *s = NULL;
        struct error e = {0};
        struct queue_id id;
        bool found;
        mem_fail_after(k);
        int rc = queue_submit_begin(q, &plain, &s, &e);
        if (rc == 0)
            rc = add(s, "a", 1, &e);
        if (rc == 0)
            rc = queue_submit_publish(s, NULL, true, &id, &found, &e);
        mem_fail_after(0);
        if (rc == 0)
            break;
        CHECK_INT(rc, -ERROR_NOMEM);
        queue_submit_abort(s);
    }
    CHECK_INT(help_counts(q).total, 1);
    queue_close(q);
}

/* Times, dependencies and deadlines. */

static struct queue_id submit_with(struct queue *q, const struct queue_batch_options *opt,
                                   const struct queue_new_request *r)
{
    struct error e = {0};
    struct queue_id id;
    bool found;
    struct queue_submit *s = begin(q, opt);
    CHECK_OK(queue_submit_add(s, r, &e), &e);
    CHECK_OK(queue_submit_publish(s, NULL, false, &id, &found, &e), &e);
    return id;
}

static void scan(struct queue *q)
{
    struct error e = {0};
    bool more = true;
    while (more)
        CHECK_OK(queue_scan(q, &more, &e), &e);
}

TEST(queue_scan_promotes_when_the_time_has_come)
{
    struct queue *q = help_open(DB);
    const struct queue_new_request r = {.custom_id = str_of("later"),
                                        .not_before_us = clock_wall_us() + 3600000000};
    submit_with(q, &plain, &r);
    scan(q);
    CHECK_INT(help_counts(q).held_not_before, 1);
    CHECK_INT(help_counts(q).held_submitting, 0);
    struct queue_status s;
    struct error e = {0};
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK_INT(s.next_not_before_us, r.not_before_us);
    queue_status_release(&s);
    clock_test_shift(3601000000, 0);
    scan(q);
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 1);
    queue_close(q);
}

TEST(queue_scan_expires_what_waits_beyond_its_deadline_but_not_what_runs)
{
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    const struct queue_new_request r = {.custom_id = str_of("soon"),
                                        .deadline_us = clock_wall_us() + 1000000};
    submit_with(q, &plain, &r);
    struct queue_claim c = help_claim_one(w);
    CHECK_INT(c.deadline_us, r.deadline_us);
    struct queue_id batch = submit_with(q, &plain, &r);
    clock_test_shift(2000000, 0);
    scan(q);
    struct queue_counts n = help_counts(q);
    CHECK_INT(n.state[QUEUE_RUNNING], 1);
    CHECK_INT(n.state[QUEUE_EXPIRED], 1);
    struct queue_results results;
    struct error e = {0};
    CHECK_OK(queue_results(q, &batch, 0, 0, &results, &e), &e);
    CHECK_INT(results.n, 1);
    CHECK_INT(results.item[0].state, QUEUE_EXPIRED);
    CHECK(!results.item[0].json);
    queue_results_release(&results);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_scan_waits_for_the_batches_that_come_first)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id first = help_submit_one(q, "first", 0);
    const struct queue_batch_options after = {.after = &first, .n_after = 1};
    const struct queue_new_request r = {.custom_id = str_of("second"), .priority = 9};
    submit_with(q, &after, &r);
    scan(q);
    CHECK_INT(help_counts(q).held_dependency, 1);
    CHECK_INT(help_counts(q).held_submitting, 0); /* or a drain would wait for it */
    struct queue_claim c = help_claim_one(w);
    CHECK_STR(c.custom_id, "first");
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_FAILED)); /* finished, whatever the outcome */
    help_free_claim(&c);
    scan(q);
    c = help_claim_one(w);
    CHECK_STR(c.custom_id, "second");
    help_free_claim(&c);

    struct queue_id unknown = {{1}};
    const struct queue_batch_options bad = {.after = &unknown, .n_after = 1};
    struct queue_submit *s = NULL;
    CHECK_ERROR(queue_submit_begin(q, &bad, &s, &e), &e, ERROR_NOTFOUND, "0100");
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
