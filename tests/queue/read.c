/* Lists go on by key, and never hold a statement open. */
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/queue/help.h"

TEST(queue_requests_go_on_by_key_and_filter_by_state)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 25, 1);
    help_submit(q, 3, 1);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 4, &c), 4);
    for (size_t i = 0; i < 2; i++)
        CHECK(!help_end(q, c.item[i].job, c.item[i].attempt, QUEUE_END_DONE));
    queue_claims_release(&c);
    struct queue_filter f = {.batch = &batch, .limit = 10};
    int n = 0;
    do {
        struct queue_requests r;
        CHECK_OK(queue_requests(q, &f, &r, &e), &e);
        CHECK(r.n <= 10);
        for (size_t i = 0; i < r.n; i++, n++) {
            char want[16];
            snprintf(want, sizeof(want), "r%d", n);
            CHECK_STR(r.item[i].custom_id, want);
            CHECK_INT(r.item[i].finished_us > 0, n < 2);
            CHECK_INT(r.item[i].attempts, n < 4);
        }
        f.after_key = r.next_key;
        queue_requests_release(&r);
    } while (f.after_key);
    CHECK_INT(n, 25);
    f = (struct queue_filter){.states = 1u << QUEUE_DONE | 1u << QUEUE_RUNNING};
    struct queue_requests r;
    CHECK_OK(queue_requests(q, &f, &r, &e), &e);
    CHECK_INT(r.n, 4);
    CHECK_STR(r.item[0].finish, "stop");
    CHECK_INT(r.item[2].state, QUEUE_RUNNING);
    queue_requests_release(&r);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_results_stop_at_4_mib)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 8, 1);
    size_t bytes = 1500000;
    char *json = mem_alloc(bytes);
    CHECK(json);
    memset(json, ' ', bytes);
    json[0] = '1';
    struct queue_claims c;
    CHECK_INT(help_claim(w, 8, &c), 8);
    for (size_t i = 0; i < c.n; i++) {
        struct queue_end end = {
            .job = c.item[i].job, .attempt = c.item[i].attempt, .json = str_slice(json, bytes)};
        CHECK_OK(queue_end(q, &end, 1, &e), &e);
    }
    queue_claims_release(&c);
    struct queue_results r;
    CHECK_OK(queue_results(q, NULL, 0, 0, &r, &e), &e);
    CHECK_INT(r.n, 3);
    CHECK(r.more);
    int64_t key = r.next_key;
    queue_results_release(&r);
    CHECK_OK(queue_results(q, NULL, key, 0, &r, &e), &e);
    CHECK_INT(r.n, 3);
    CHECK_INT(r.item[0].key, key + 1);
    queue_results_release(&r);
    mem_free(json);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_results_follow_in_the_order_of_finishing_each_once)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_id batch = help_submit(q, 4, 1);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 4, &c), 4);
    static const int order[] = {2, 0, 3, 1};
    for (int i = 0; i < 3; i++) {
        const struct queue_claim *one = &c.item[order[i]];
        CHECK(!help_end(q, one->job, one->attempt, QUEUE_END_DONE));
    }
    struct queue_results r;
    CHECK_OK(queue_results_follow(q, &batch, 0, 0, &r, &e), &e);
    CHECK_INT(r.n, 3);
    for (int i = 0; i < 3; i++)
        CHECK(memcmp(&r.item[i].request, &c.item[order[i]].request, 16) == 0);
    int64_t key = r.next_key;
    queue_results_release(&r);
    /* A retry that finishes again is not given again. */
    CHECK_OK(queue_retry(q, c.item[0].request, str_of(""), &e), &e);
    struct queue_claim again = help_claim_one(w);
    CHECK(!help_end(q, again.job, again.attempt, QUEUE_END_DONE));
    CHECK(!help_end(q, c.item[1].job, c.item[1].attempt, QUEUE_END_FAILED));
    CHECK_OK(queue_results_follow(q, NULL, key, 0, &r, &e), &e);
    CHECK_INT(r.n, 1);
    CHECK_STR(r.item[0].custom_id, "r1");
    CHECK_INT(r.item[0].state, QUEUE_FAILED);
    queue_results_release(&r);
    help_free_claim(&again);
    queue_claims_release(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_show_keeps_the_timing_of_every_attempt)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 1, 1);
    struct queue_claim c = help_claim_one(w);
    struct queue_end end = {.job = c.job,
                            .attempt = c.attempt,
                            .kind = QUEUE_END_RELEASE,
                            .timing = {.load_ms = 1,
                                       .prefill_tokens = 2,
                                       .prefill_ms = 3,
                                       .decode_tokens = 4,
                                       .decode_ms = 5,
                                       .resumed_tokens = 6,
                                       .read_bytes = 7,
                                       .expert_hits = 8,
                                       .expert_misses = 9,
                                       .major_faults = 10,
                                       .pressure_some_us = 11,
                                       .pressure_full_us = 12,
                                       .refaults = 14,
                                       .throttled_us = 15,
                                       .limit_hits = 16,
                                       .peak_resident_bytes = 17,
                                       .peak_json = str_of("{\"state\":13}")}};
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
    struct queue_show show;
    CHECK_OK(queue_show(q, c.request, &show, &e), &e);
    CHECK_INT(show.n_jobs, 1);
    CHECK_INT(show.job[0].n_attempts, 1);
    const struct queue_attempt_info *a = &show.job[0].attempt[0];
    const struct queue_timing *t = &a->timing;
    CHECK_STR(a->end, "released");
    CHECK_STR(a->peak_json, "{\"state\":13}");
    CHECK(!a->error_json && a->wait_us >= 0 && a->ended_us >= a->claimed_us);
    CHECK(t->load_ms == 1 && t->prefill_tokens == 2 && t->prefill_ms == 3);
    CHECK(t->decode_tokens == 4 && t->decode_ms == 5 && t->resumed_tokens == 6);
    CHECK(t->read_bytes == 7 && t->expert_hits == 8 && t->expert_misses == 9);
    CHECK(t->major_faults == 10 && t->pressure_some_us == 11 && t->pressure_full_us == 12);
    CHECK(t->refaults == 14 && t->throttled_us == 15 && t->limit_hits == 16);
    CHECK_INT(t->peak_resident_bytes, 17);
    queue_show_release(&show);
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_tail_follows_pieces_and_says_when_they_were_discarded)
{
    struct error e = {0};
    struct buf out;
    bool refused;
    struct queue_tail t = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 1, 1);
    struct queue_claim c = help_claim_one(w);
    buf_init(&out, 1000);
    CHECK_OK(queue_tail(q, c.request, &t, &out, &e), &e);
    CHECK_INT(out.len, 0);
    help_progress(q, &c, "ab");
    help_progress(q, &c, "cd");
    CHECK_OK(queue_tail(q, c.request, &t, &out, &e), &e);
    CHECK_STR(out.ptr, "abcd");
    CHECK(!t.restarted && t.state == QUEUE_RUNNING && t.attempt == 1);
    CHECK_OK(queue_tail(q, c.request, &t, &out, &e), &e);
    CHECK_INT(out.len, 4);
    CHECK_OK(queue_progress_discard(q, c.job, c.attempt, str_of("x"), &refused, &e), &e);
    help_progress(q, &c, "ef");
    buf_clear(&out);
    CHECK_OK(queue_tail(q, c.request, &t, &out, &e), &e);
    CHECK_STR(out.ptr, "ef");
    CHECK(t.restarted);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    CHECK_OK(queue_tail(q, c.request, &t, &out, &e), &e);
    CHECK_INT(out.len, 2);
    CHECK_INT(t.state, QUEUE_DONE);
    buf_release(&out);
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_events_tell_the_story)
{
    static const char *const want[] = {"worker_started", "published",      "progress_discarded",
                                       "final",          "batch_finished", "paused",
                                       "retried",        "resumed"};
    struct error e = {0};
    bool refused;
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 1, 1);
    struct queue_claim c = help_claim_one(w);
    CHECK_OK(queue_progress_discard(q, c.job, c.attempt, str_of("a \"b\"\n\\"), &refused, &e), &e);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    CHECK_OK(queue_pause(q, str_of(""), &e), &e);
    CHECK_OK(queue_retry(q, c.request, str_of(""), &e), &e);
    CHECK_OK(queue_resume(q, &e), &e);
    int64_t key = 0;
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        struct queue_events v;
        CHECK_OK(queue_events(q, key, 1, &v, &e), &e);
        CHECK_INT(v.n, 1);
        CHECK_STR(v.item[0].kind, want[i]);
        CHECK(v.item[0].at_us > 0);
        if (i == 2) {
            CHECK_STR(v.item[0].detail_json, "{\"reason\":\"a \\\"b\\\"\\u000a\\\\\"}");
            CHECK(memcmp(&v.item[0].request, &c.request, 16) == 0); /* by way of the job */
            CHECK(memcmp(&v.item[0].batch, &c.batch, 16) == 0);
        }
        key = v.next_key;
        queue_events_release(&v);
    }
    struct queue_events none;
    CHECK_OK(queue_events(q, key, 0, &none, &e), &e);
    CHECK_INT(none.n, 0);
    CHECK_INT(none.next_key, key);
    queue_events_release(&none);
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_status_gives_rates_of_the_last_attempts)
{
    struct error e = {0};
    struct queue_status s;
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 10, 1);
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK_INT(s.rates.n_attempts, 0);
    CHECK(s.rates.requests_per_s == 0 && !s.paused);
    queue_status_release(&s);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 10, &c), 10);
    for (size_t i = 0; i < c.n; i++)
        CHECK(!help_end(q, c.item[i].job, c.item[i].attempt, QUEUE_END_DONE));
    queue_claims_release(&c);
    clock_test_shift(10000000, 0); /* 70 tokens and 10 requests in ten seconds */
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK_INT(s.rates.n_attempts, 10);
    CHECK(fabs(s.rates.requests_per_s - 1) < 0.2);
    CHECK(fabs(s.rates.decode_tokens_per_s - 7) < 1.4);
    queue_status_release(&s);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_lists_survive_failing_allocations)
{
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 3, 1);
    struct queue_claim c = help_claim_one(w);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    for (long k = 1;; k++) {
        struct error e = {0};
        struct queue_batches b = {0};
        struct queue_requests r = {0};
        struct queue_results s = {0};
        struct queue_show show = {0};
        struct queue_events v = {0};
        struct queue_status status = {0};
        const struct queue_filter all = {.limit = 0};
        mem_fail_after(k);
        int rc = queue_batches(q, 0, 0, &b, &e);
        rc = rc ? rc : queue_requests(q, &all, &r, &e);
        rc = rc ? rc : queue_results(q, NULL, 0, 0, &s, &e);
        rc = rc ? rc : queue_show(q, c.request, &show, &e);
        rc = rc ? rc : queue_events(q, 0, 0, &v, &e);
        rc = rc ? rc : queue_status(q, NULL, &status, &e);
        mem_fail_after(0);
        queue_batches_release(&b);
        queue_requests_release(&r);
        queue_results_release(&s);
        queue_show_release(&show);
        queue_events_release(&v);
        queue_status_release(&status);
        if (rc == 0) {
            CHECK(k > 20);
            break;
        }
        CHECK_INT(rc, -ERROR_NOMEM);
    }
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
