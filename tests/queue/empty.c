/* Answers that say nothing: counted, found, and no success that replaces anything. */
#include "tests/queue/help.h"

static void end_done(struct queue *q, struct queue_worker *w, const char *json, const char *empty)
{
    struct error e = {0};
    struct queue_claim c = help_claim_one(w);
    struct queue_end end = {.job = c.job,
                            .attempt = c.attempt,
                            .kind = QUEUE_END_DONE,
                            .json = str_of(json),
                            .finish = str_of("length"),
                            .http = 200,
                            .empty = str_of(empty)};
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
    CHECK(!end.refused);
    help_free_claim(&c);
}

/* The requests that --empty would find; the word of the last one is copied. */
static size_t find_empty(struct queue *q, const struct queue_id *batch, char why[64])
{
    struct error e = {0};
    struct queue_requests page = {0};
    const struct queue_filter f = {.batch = batch, .empty = true};
    CHECK_OK(queue_requests(q, &f, &page, &e), &e);
    size_t n = page.n;
    if (n > 0)
        snprintf(why, 64, "%s", page.item[n - 1].empty);
    queue_requests_release(&page);
    return n;
}

static void check_answer(struct queue *q, const char *json, const char *empty)
{
    struct error e = {0};
    struct queue_results r = {0};
    CHECK_OK(queue_results(q, NULL, 0, 1, &r, &e), &e);
    CHECK_INT(r.n, 1);
    CHECK_STR(r.item[0].json, json);
    CHECK(!empty == !r.item[0].empty);
    if (empty)
        CHECK_STR(r.item[0].empty, empty);
    queue_results_release(&r);
}

static struct queue_id first_request(struct queue *q)
{
    struct error e = {0};
    struct queue_requests page = {0};
    const struct queue_filter f = {.limit = 1};
    CHECK_OK(queue_requests(q, &f, &page, &e), &e);
    struct queue_id id = page.item[0].id;
    queue_requests_release(&page);
    return id;
}

TEST(queue_empty_answers_are_counted_and_found_until_they_run_again)
{
    struct error e = {0};
    char why[64] = "";
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 2, 10);
    struct queue_id other = help_submit_one(q, "x", -1);
    end_done(q, w, "{\"empty\":1}", "thought");
    end_done(q, w, "{\"good\":1}", NULL);
    CHECK_INT(help_counts(q).empty, 1);
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 2);
    CHECK_INT(find_empty(q, NULL, why), 1);
    CHECK_STR(why, "thought");
    CHECK_INT(find_empty(q, &batch, why), 1);
    CHECK_INT(find_empty(q, &other, why), 0);
    struct queue_batches b;
    CHECK_OK(queue_batch(q, batch, &b, &e), &e);
    CHECK_INT(b.item[0].counts.empty, 1);
    queue_batches_release(&b);

    CHECK_OK(queue_retry(q, first_request(q), str_of(""), &e), &e);
    CHECK_INT(help_counts(q).empty, 0);
    CHECK_INT(find_empty(q, NULL, why), 0);
    check_answer(q, "{\"empty\":1}", "thought");
    end_done(q, w, "{\"good\":2}", NULL);
    CHECK_INT(help_counts(q).empty, 0);
    check_answer(q, "{\"good\":2}", NULL);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_empty_answer_replaces_an_empty_one_and_no_good_one)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit_one(q, "x", 0);
    struct queue_id id = first_request(q);
    end_done(q, w, "{\"empty\":1}", "thought");
    CHECK_OK(queue_retry(q, id, str_of(""), &e), &e);
    end_done(q, w, "{\"empty\":2}", "ended");
    check_answer(q, "{\"empty\":2}", "ended");
    CHECK_OK(queue_retry(q, id, str_of(""), &e), &e);
    end_done(q, w, "{\"good\":3}", NULL);
    check_answer(q, "{\"good\":3}", NULL);
    CHECK_OK(queue_retry(q, id, str_of(""), &e), &e);
    end_done(q, w, "{\"empty\":4}", "thought");
    check_answer(q, "{\"good\":3}", NULL);
    CHECK_INT(help_counts(q).empty, 0);
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 1);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
