/* The record of runs: what a worker writes of itself, and what it may not write any more. */
#include <sqlite3.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/queue/help.h"

static struct queue_worker *begin(struct queue *q)
{
    struct error e = {0};
    const struct queue_run_about about = {.model_json = str_of("{\"name\":\"small\"}")};
    struct queue_worker *w = help_worker(q);
    CHECK_OK(queue_run_begin(w, &about, &e), &e);
    return w;
}

TEST(queue_runs_takes_nothing_before_it_began)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    CHECK_INT(queue_run_note(w, str_of("gate"), str_of(""), &e), -ERROR_NOTFOUND);
    CHECK_INT(queue_run_sample(w, &(struct queue_sample){0}, &e), -ERROR_NOTFOUND);
    CHECK(!queue_worker_fenced(w));
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_runs_refuses_a_superseded_worker_and_what_is_no_json)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = begin(q);
    CHECK_OK(queue_run_note(w, str_of("gate"), str_of("{\"why\":\"window\"}"), &e), &e);
    CHECK(queue_run_note(w, str_of("gate"), str_of("{"), &e) != 0);
    CHECK(!queue_worker_fenced(w));
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    CHECK_INT(
        sqlite3_exec(db, "UPDATE worker SET ended_us = 1, end = 'superseded'", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    CHECK_INT(queue_run_sample(w, &(struct queue_sample){0}, &e), -ERROR_FENCED);
    CHECK(queue_worker_fenced(w));
    CHECK_INT(queue_run_note(w, str_of("gate"), str_of(""), &e), -ERROR_FENCED);
    CHECK_INT(queue_run_end(w, str_of("drained"), 0, str_of(""), str_of(""), &e), -ERROR_FENCED);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_note"), 1);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_sample"), 0);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run WHERE ended_us IS NULL"), 1);
    queue_worker_close(w, str_of("fenced"));
    queue_close(q);
}

#define DAY_US INT64_C(86400000000)

/* Samples and notes of the past go, those of the present stay, whichever run they are of. */
TEST(queue_runs_forgets_samples_and_notes_after_a_hundred_days)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = begin(q);
    const int days[] = {0, 60, 110};
    for (size_t i = 0; i < ARRAY_LEN(days); i++) {
        clock_test_shift(days[i] * DAY_US, days[i] * DAY_US);
        CHECK_OK(queue_run_sample(w, &(struct queue_sample){0}, &e), &e);
        CHECK_OK(queue_run_note(w, str_of("gate"), str_of(""), &e), &e);
    }
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_sample"), 2);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_note"), 3);
    queue_worker_close(w, str_of("done"));
    clock_test_shift(170 * DAY_US, 170 * DAY_US);
    w = begin(q);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_sample"), 1);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_note"), 1);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run"), 2);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_runs_keeps_only_so_many_notes)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = begin(q);
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db,
                           "INSERT INTO run_note VALUES (1, 1, 1, 'gate', '{}'),"
                           " (1, 9999, 1, 'gate', '{}')",
                           NULL, NULL, NULL),
              SQLITE_OK);
    sqlite3_close(db);
    CHECK_OK(queue_run_note(w, str_of("gate"), str_of(""), &e), &e);
    CHECK_OK(queue_run_note(w, str_of("disk"), str_of(""), &e), &e);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_note WHERE seq > 1"), 3);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run_note WHERE seq = 1"), 0);
    CHECK_OK(queue_run_end(w, str_of("drained"), 0, str_of(""), str_of("{\"done\":1}"), &e), &e);
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run WHERE why = 'drained' AND status = 0"
                              " AND error IS NULL AND json_extract(totals, '$.done') = 1"
                              " AND ended_us >= started_us"),
              1);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

/* What a killed run has finished behind its last sample is known of it, too: rates would be nonsense. */
TEST(queue_runs_that_died_are_known_until_their_last_attempt)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = begin(q);
    CHECK_OK(queue_run_sample(w, &(struct queue_sample){0}, &e), &e);
    const int64_t started_us = help_number(DB, "SELECT started_us FROM run");
    help_submit(q, 1, 10);
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    char sql[600];
    snprintf(sql, sizeof(sql),
             "UPDATE worker SET ended_us = %lld, end = 'superseded';"
             "INSERT INTO attempt (job_id, attempt, worker_id, claimed_us, wait_us, ended_us, end)"
             " SELECT id, 1, (SELECT max(id) FROM worker), 1, 0, %lld, 'done' FROM job LIMIT 1;"
             "INSERT INTO attempt (job_id, attempt, worker_id, claimed_us, wait_us, ended_us, end)"
             " SELECT id, 2, (SELECT max(id) FROM worker), 1, 0, %lld, 'died' FROM job LIMIT 1",
             (long long)(started_us + DAY_US), (long long)(started_us + DAY_US / 2),
             (long long)(started_us + DAY_US));
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    struct queue_runs runs = {0};
    CHECK_OK(queue_runs(q, 0, 10, &runs, &e), &e);
    CHECK_INT(runs.n, 1);
    CHECK_INT(runs.item[0].known_us, started_us + DAY_US / 2);
    queue_runs_release(&runs);
    queue_worker_close(w, str_of("fenced"));
    queue_close(q);
}
