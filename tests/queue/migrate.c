/*
 * Every released version's database opens and is finished, for ever.
 *
 * data/v1.db was written by the code of version 1: batch "first" has one done, one failed and one
 * running request (with progress "saved tokens", of a worker that died without a word), one that
 * waits after a retry, and two queued; "gone" was cancelled; "later" waits for the year 2100. The
 * queue is paused.
 *
 * data/v2.db was written by the program of version 2: two requests are done, with 5 tokens each, one has
 * failed, two are queued; one worker has come and gone, and left no record of its run.
 */
#include "base/file.h"
#include "tests/queue/help.h"

static void copy_database(const char *name)
{
    char from[4096];
    struct error e = {0};
    struct buf bytes;
    struct file_replace to;
    snprintf(from, sizeof(from), "%s/tests/queue/data/%s", test_source_root(), name);
    buf_init(&bytes, 64u << 20);
    CHECK_OK(file_read_all(from, 64u << 20, &bytes, &e), &e);
    CHECK_OK(file_replace_begin(&to, DB, &e), &e);
    CHECK_OK(file_write_fd(to.fd, bytes.ptr, bytes.len, DB, &e), &e);
    CHECK_OK(file_replace_commit(&to, &e), &e);
    buf_release(&bytes);
}

TEST(queue_migrate_a_database_of_version_1_opens_and_is_finished)
{
    struct error e = {0};
    bool paused = false;
    bool more = true;
    copy_database("v1.db");
    struct queue *q = help_open(DB);
    CHECK_OK(queue_integrity(q, &e), &e);
    struct queue_counts n = help_counts(q);
    CHECK_INT(n.total, 10);
    CHECK_INT(n.state[QUEUE_DONE], 1);
    CHECK_INT(n.state[QUEUE_FAILED], 1);
    CHECK_INT(n.state[QUEUE_RUNNING], 1);
    CHECK_INT(n.state[QUEUE_QUEUED], 2);
    CHECK_INT(n.state[QUEUE_CANCELLED], 2);
    CHECK_INT(n.held_not_before, 3);
    CHECK_INT(n.empty, 0);
    CHECK_OK(queue_paused(q, &paused, NULL, &e), &e);
    CHECK(paused);
    CHECK_OK(queue_resume(q, &e), &e);

    struct queue_worker *w = help_worker(q);
    while (more)
        CHECK_OK(queue_scan(q, &more, &e), &e);
    struct queue_claims c;
    int n_resumed = 0;
    int n_ended = 0;
    while (help_claim(w, 1, &c) > 0) {
        CHECK_STR(c.item[0].endpoint, "/v1/chat/completions");
        CHECK(c.item[0].body_bytes >= 20 && c.item[0].body[0] == 'b');
        if (c.item[0].progress) {
            CHECK_STR(c.item[0].progress, "saved tokens");
            CHECK_INT(c.item[0].attempt, 2);
            n_resumed++;
        }
        struct queue_end end = {.job = c.item[0].job,
                                .attempt = c.item[0].attempt,
                                .kind = QUEUE_END_DONE,
                                .json = str_of("{}"),
                                .finish = str_of("length"),
                                .http = 200,
                                .empty = str_of(n_ended++ == 0 ? "thought" : NULL)};
        CHECK_OK(queue_end(q, &end, 1, &e), &e);
        CHECK(!end.refused);
        queue_claims_release(&c);
    }
    CHECK_INT(n_resumed, 1);
    CHECK_INT(help_counts(q).empty, 1);
    struct queue_target first;
    struct queue_batches b;
    CHECK_OK(queue_find(q, str_of("first"), NULL, &first, &e), &e);
    CHECK_OK(queue_batch(q, first.id, &b, &e), &e);
    CHECK(b.item[0].finished_us > 0);
    CHECK_INT(b.item[0].counts.state[QUEUE_DONE], 5);
    CHECK_STR(b.item[0].metadata_json, "{\"night\":1}");
    queue_batches_release(&b);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_migrate_a_database_of_version_2_opens_and_records_runs)
{
    struct error e = {0};
    bool more = true;
    copy_database("v2.db");
    struct queue *q = help_open(DB);
    CHECK_OK(queue_integrity(q, &e), &e);
    CHECK_INT(help_counts(q).state[QUEUE_DONE], 2);
    CHECK_INT(help_counts(q).state[QUEUE_QUEUED], 2);
    struct queue_runs runs;
    CHECK_OK(queue_runs(q, 0, 0, &runs, &e), &e);
    CHECK_INT(runs.n, 0);
    queue_runs_release(&runs);

    struct queue_worker *w = help_worker(q);
    const struct queue_run_about about = {.model_json = str_of("{\"name\":\"small\"}")};
    CHECK_OK(queue_run_begin(w, &about, &e), &e);
    while (more)
        CHECK_OK(queue_scan(q, &more, &e), &e);
    struct queue_claim c = help_claim_one(w);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    struct queue_run_sums sums;
    const struct queue_span all = {1, 0, INT64_MAX};
    CHECK_OK(queue_run_sums(q, &all, &sums, &e), &e);
    CHECK_INT(sums.done, 1);
    CHECK_INT(sums.decode_tokens, 7);
    CHECK_OK(queue_integrity(q, &e), &e);
    help_free_claim(&c);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
