#include <unistd.h>

#include "base/clock.h"
#include "queue/internal.h"

/* One step of a deletion: children before parents, and in the order of the index job_open. */
static const char *const delete_steps[] = {
    "CREATE TEMP TABLE IF NOT EXISTS doomed (job INTEGER PRIMARY KEY, request INTEGER, body "
    "INTEGER)",
    "DELETE FROM doomed",
    "INSERT INTO doomed SELECT id, request_id, body_id FROM job"
    " WHERE batch_id = ?1 AND " OPEN_STATES " LIMIT 1000",
    "DELETE FROM job WHERE id IN (SELECT job FROM doomed)",
    "DELETE FROM request WHERE id IN (SELECT request FROM doomed)",
    "DELETE FROM body WHERE id IN (SELECT body FROM doomed)",
};

/* An unpublished batch's jobs were never claimed: they have no attempts, progress or results. */
static int delete_some(struct queue *q, int64_t batch, bool *ret_more, struct error *e)
{
    struct db *db = &q->db;
    int64_t left = 0;
    int rc = db_number(db, "SELECT 1 FROM batch WHERE id = ? AND published_us IS NULL",
                       SQL_ARGS(sql_int(batch)), &left, e);
    *ret_more = false;
    if (rc <= 0)
        return rc;
    rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(delete_steps); i++)
        rc = db_run(db, delete_steps[i], i == 2 ? SQL_ARGS(sql_int(batch)) : SQL_NONE, e);
    if (rc == 0)
        rc = db_number(db, "SELECT id FROM job WHERE batch_id = ? AND " OPEN_STATES " LIMIT 1",
                       SQL_ARGS(sql_int(batch)), &left, e);
    *ret_more = rc == 1;
    if (rc == 0)
        rc = db_run(db, "DELETE FROM batch WHERE id = ?", SQL_ARGS(sql_int(batch)), e);
    return rc < 0 ? rc : 0;
}

int batch_delete(struct queue *q, int64_t batch, struct error *e)
{
    for (bool more = true; more;) {
        int rc = db_begin(&q->db, e);
        if (rc == 0)
            rc = db_end(&q->db, delete_some(q, batch, &more, e), e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static bool submitter_alive(int64_t pid, int64_t start, struct str boot)
{
    char here[37];
    clock_boot_id(here);
    return str_equal_c(boot, here) && clock_process_start((int)pid) == (uint64_t)start;
}

/* The next orphan after a row: 1 and its key, or 0. */
static int next_orphan(struct queue *q, int64_t after, int64_t *ret, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT id, submitter_pid, submitter_start, submitter_boot FROM batch"
                      " WHERE published_us IS NULL AND id > ? ORDER BY id",
                      SQL_ARGS(sql_int(after)), &stmt, e);
    while (rc == 0 && (rc = db_step(&q->db, stmt, e)) == 1) {
        if (!submitter_alive(col_int(stmt, 1), col_int(stmt, 2), col_str(stmt, 3))) {
            *ret = col_int(stmt, 0);
            db_done(stmt);
            return 1;
        }
        rc = 0;
    }
    return rc;
}

int batch_delete_orphans(struct queue *q, struct error *e)
{
    int64_t batch = 0;
    int rc;
    while ((rc = next_orphan(q, batch, &batch, e)) == 1) {
        rc = batch_delete(q, batch, e);
        if (rc != 0)
            return rc;
    }
    return rc;
}
