/* Measured rates: time that several attempts share counts once, and only one model's attempts count. */
#include <sqlite3.h>

#include "tests/queue/help.h"

static void run_sql(const char *script)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, script, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

TEST(measure_knows_nothing_at_first)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_measure m;
    CHECK_OK(queue_measured(q, &m, &e), &e);
    CHECK_INT(m.n_attempts, 0);
    CHECK_STR(m.model, "");
    queue_close(q);
}

/* Four requests done; the times of their attempts are then set by hand. */
static struct queue *four_done(void)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit(q, 4, 10);
    struct queue_worker *w = help_worker(q);
    CHECK_OK(queue_worker_status(w, str_of("{\"model\":\"small\"}"), &e), &e);
    struct queue_claims c;
    CHECK_INT(help_claim(w, 4, &c), 4);
    for (size_t i = 0; i < 4; i++)
        CHECK(!help_end(q, c.item[i].job, c.item[i].attempt, QUEUE_END_DONE));
    queue_claims_release(&c);
    queue_worker_close(w, str_of("test"));
    run_sql("UPDATE attempt SET decode_tokens = 100, decode_ms = 4000, prefill_ms = 500;"
            "UPDATE attempt SET claimed_us = 10000000, ended_us = 20000000 WHERE job_id = 1;"
            "UPDATE attempt SET claimed_us = 12000000, ended_us = 18000000 WHERE job_id = 2;"
            "UPDATE attempt SET claimed_us = 19000000, ended_us = 24000000 WHERE job_id = 3;"
            "UPDATE attempt SET claimed_us = 100000000, ended_us = 106000000 WHERE job_id = 4;");
    return q;
}

TEST(measure_counts_shared_time_once)
{
    struct error e = {0};
    struct queue *q = four_done();
    struct queue_measure m;
    CHECK_OK(queue_measured(q, &m, &e), &e);
    CHECK_INT(m.n_attempts, 4);
    CHECK_INT(m.tokens, 400);
    CHECK_INT(m.decode_ms, 16000);
    CHECK_INT(m.prefill_ms, 2000);
    CHECK_INT(m.busy_us, 20000000); /* 10 to 24 and 100 to 106 */
    CHECK_INT(m.held_us, 27000000);
    CHECK_INT(m.first_us, 10000000);
    CHECK_INT(m.last_us, 106000000);
    CHECK_STR(m.model, "small");
    queue_close(q);
}

TEST(measure_takes_the_model_that_finished_last_and_what_it_finished)
{
    struct error e = {0};
    struct queue *q = four_done();
    run_sql("INSERT INTO worker (id, uid, pid, start_ticks, boot_id, lock_path, planned_bytes,"
            " beat_us, started_us, ended_us, status)"
            " SELECT 77, randomblob(16), pid, start_ticks, boot_id, lock_path, planned_bytes,"
            " beat_us, started_us, 1, '{\"model\":\"large\"}' FROM worker LIMIT 1;"
            "UPDATE attempt SET worker_id = 77 WHERE job_id IN (3, 4);"
            "UPDATE attempt SET end = 'released' WHERE job_id = 3;");
    struct queue_measure m;
    CHECK_OK(queue_measured(q, &m, &e), &e);
    CHECK_STR(m.model, "large");
    CHECK_INT(m.n_attempts, 1);
    CHECK_INT(m.busy_us, 6000000);
    queue_close(q);
}
