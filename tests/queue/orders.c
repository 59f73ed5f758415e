/* Cancel, retry, hold, priority and finding, and how they show in the lists. */
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/queue/help.h"

static struct queue_target of_batch(struct queue_id id)
{
    return (struct queue_target){QUEUE_KIND_BATCH, id};
}

static struct queue_target find(struct queue *q, const char *text)
{
    struct error e = {0};
    struct queue_target t;
    CHECK_OK(queue_find(q, str_of(text), NULL, &t, &e), &e);
    return t;
}

TEST(queue_cancel_refuses_the_running_attempts_next_write)
{
    struct error e = {0};
    uint64_t n = 0;
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 2500, 1);
    struct queue_claim c = help_claim_one(w);
    CHECK(!help_progress(q, &c, "t"));
    CHECK_OK(queue_cancel(q, of_batch(batch), &n, &e), &e);
    CHECK_INT(n, 2500);
    CHECK(help_progress(q, &c, "t"));
    CHECK(help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    CHECK_INT(help_counts(q).state[QUEUE_CANCELLED], 2500);
    struct queue_show show;
    CHECK_OK(queue_show(q, c.request, &show, &e), &e);
    CHECK_STR(show.job[0].attempt[0].end, "cancelled");
    CHECK(show.job[0].attempt[0].ended_us > 0);
    queue_show_release(&show);
    CHECK_OK(queue_cancel(q, of_batch(batch), &n, &e), &e);
    CHECK_INT(n, 0);
    CHECK_OK(queue_integrity(q, &e), &e);
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_cancel_of_one_request_leaves_the_others)
{
    struct error e = {0};
    uint64_t n = 0;
    struct queue *q = help_open(DB);
    help_submit(q, 3, 1);
    struct queue_target t = find(q, "r1");
    CHECK_INT(t.kind, QUEUE_KIND_REQUEST);
    CHECK_OK(queue_cancel(q, t, &n, &e), &e);
    CHECK_INT(n, 1);
    struct queue_counts c = help_counts(q);
    CHECK_INT(c.state[QUEUE_CANCELLED], 1);
    CHECK_INT(c.state[QUEUE_QUEUED], 2);
    queue_close(q);
}

static void answer(struct queue *q, struct queue_worker *w, enum queue_end_kind kind,
                   const char *json)
{
    struct error e = {0};
    struct queue_claim c = help_claim_one(w);
    struct queue_end end = {.job = c.job,
                            .attempt = c.attempt,
                            .kind = kind,
                            .json = str_of(json),
                            .finish = str_of("stop")};
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
    CHECK(!end.refused);
    help_free_claim(&c);
}

static void check_answer(struct queue *q, const char *want)
{
    struct error e = {0};
    struct queue_results r;
    CHECK_OK(queue_results(q, NULL, 0, 0, &r, &e), &e);
    CHECK_INT(r.n, want ? 1 : 0);
    if (want)
        CHECK_STR(r.item[0].json, want);
    queue_results_release(&r);
}

TEST(queue_retry_keeps_the_last_good_result_until_a_success_replaces_it)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 1, 1);
    struct queue_id r = find(q, "r0").id;
    CHECK_ERROR(queue_retry(q, r, str_of(""), &e), &e, ERROR_CONFLICT, "not finished");
    answer(q, w, QUEUE_END_FAILED, "{\"error\":1}");
    check_answer(q, "{\"error\":1}");

    CHECK_OK(queue_retry(q, r, str_of(""), &e), &e);
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 1);
    CHECK_INT(help_counts(q).total, 1);
    check_answer(q, NULL); /* an error is nothing worth keeping */
    answer(q, w, QUEUE_END_DONE, "{\"good\":1}");
    check_answer(q, "{\"good\":1}");

    CHECK_OK(queue_retry(q, r, str_of("{\"seed\":2}"), &e), &e);
    struct queue_batches b;
    CHECK_OK(queue_batch(q, batch, &b, &e), &e);
    CHECK_INT(b.item[0].finished_us, 0);
    queue_batches_release(&b);
    check_answer(q, "{\"good\":1}");
    answer(q, w, QUEUE_END_FAILED, "{\"error\":2}");
    check_answer(q, "{\"good\":1}");
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 1);

    CHECK_OK(queue_retry(q, r, str_of(""), &e), &e);
    answer(q, w, QUEUE_END_DONE, "{\"good\":2}");
    check_answer(q, "{\"good\":2}");
    struct queue_show show;
    CHECK_OK(queue_show(q, r, &show, &e), &e);
    CHECK_INT(show.n_jobs, 4);
    CHECK_STR(show.body, "{\"seed\":2}"); /* the last job's body was taken over */
    CHECK_INT(show.request.attempts, 4);
    CHECK_STR(show.result_json, "{\"good\":2}");
    queue_show_release(&show);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_retry_of_a_cancelled_batch_is_not_cancelled_again)
{
    struct error e = {0};
    uint64_t n;
    bool more;
    struct queue *q = help_open(DB);
    struct queue_id batch = help_submit(q, 2, 1);
    CHECK_OK(queue_cancel(q, of_batch(batch), &n, &e), &e);
    CHECK_OK(queue_retry(q, find(q, "r0").id, str_of(""), &e), &e);
    CHECK_OK(queue_scan(q, &more, &e), &e);
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 1);
    queue_close(q);
}

TEST(queue_hold_and_priority_change_what_is_claimed)
{
    struct error e = {0};
    uint64_t n = 0;
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 2100, 1);
    CHECK_OK(queue_hold(q, of_batch(batch), true, &n, &e), &e);
    CHECK_INT(n, 2100);
    CHECK_INT(help_counts(q).held_user, 2100);
    struct queue_claims none;
    CHECK_INT(help_claim(w, 5, &none), 0);
    CHECK_OK(queue_hold(q, find(q, "r2"), false, &n, &e), &e);
    CHECK_INT(n, 1);
    CHECK_OK(queue_hold(q, find(q, "r3"), false, &n, &e), &e);
    CHECK_OK(queue_set_priority(q, find(q, "r3"), 7, &n, &e), &e);
    CHECK_INT(n, 1);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 5, &c), 2);
    CHECK_STR(c.item[0].custom_id, "r3");
    CHECK_INT(c.item[0].priority, 7);
    CHECK_STR(c.item[1].custom_id, "r2");
    queue_claims_release(&c);
    CHECK_OK(queue_hold(q, of_batch(batch), false, &n, &e), &e);
    CHECK_INT(n, 2098);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_find_knows_uuids_names_and_custom_ids)
{
    struct error e = {0};
    char text[37];
    struct queue_target t;
    struct queue *q = help_open(DB);
    struct queue_id first = help_submit(q, 2, 1);
    struct queue_id second = help_submit(q, 2, 1);
    t = find(q, clock_uuid_text(first.bytes, text));
    CHECK(t.kind == QUEUE_KIND_BATCH && memcmp(&t.id, &first, sizeof(first)) == 0);
    t = find(q, "night"); /* the newest of that name */
    CHECK(t.kind == QUEUE_KIND_BATCH && memcmp(&t.id, &second, sizeof(second)) == 0);
    struct queue_id newest = find(q, "r1").id;
    CHECK_OK(queue_find(q, str_of("r1"), &first, &t, &e), &e);
    CHECK(memcmp(&t.id, &newest, sizeof(newest)) != 0);
    struct queue_target same = find(q, clock_uuid_text(t.id.bytes, text));
    CHECK(same.kind == QUEUE_KIND_REQUEST && memcmp(&same.id, &t.id, sizeof(t.id)) == 0);
    CHECK_ERROR(queue_find(q, str_of("nope"), NULL, &t, &e), &e, ERROR_NOTFOUND, "'nope'");
    error_clear(&e);
    CHECK_ERROR(queue_find(q, str_of(""), NULL, &t, &e), &e, ERROR_NOTFOUND, "0 bytes");
    queue_close(q);
}
