#include "base/clock.h"
#include "queue/internal.h"

/* Expressions below: 5 = submitting | dependency, 2 = not_before; literals, so that partial indexes match. */

static int promote_rows(struct queue *q, int64_t batch, bool *ret_more, struct error *e)
{
    struct db *db = &q->db;
    int64_t after = 0;
    int64_t last = 0;
    int64_t now_us = clock_wall_us();
    *ret_more = false;
    int rc = db_number(db, "SELECT promote_after FROM batch WHERE id = ? AND promoted_us IS NULL",
                       SQL_ARGS(sql_int(batch)), &after, e);
    if (rc <= 0)
        return rc;
    rc = db_number(db,
                   "SELECT max(id) FROM (SELECT id FROM job WHERE batch_id = ? AND id > ?"
                   " AND " OPEN_STATES " ORDER BY id LIMIT 1000)",
                   SQL_ARGS(sql_int(batch), sql_int(after)), &last, e);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return db_run(db, "UPDATE batch SET promoted_us = ? WHERE id = ?",
                      SQL_ARGS(sql_int(now_us), sql_int(batch)), e);
    *ret_more = true;
    rc = db_run(db,
                "UPDATE job SET hold = hold & ~5, queued_us = ?4, changed_us = ?4,"
                " state = CASE hold & ~5 WHEN 0 THEN 'queued' ELSE 'held' END"
                " WHERE batch_id = ?1 AND id > ?2 AND id <= ?3 AND " OPEN_STATES
                " AND state = 'held' AND (hold & 5) <> 0",
                SQL_ARGS(sql_int(batch), sql_int(after), sql_int(last), sql_int(now_us)), e);
    if (rc == 0)
        rc = db_run(db, "UPDATE batch SET promote_after = ? WHERE id = ?",
                    SQL_ARGS(sql_int(last), sql_int(batch)), e);
    return rc;
}

/* The first batch after a row that is published, waits for nothing and is not promoted. */
static int next_promotable(struct queue *q, int64_t after, int64_t *ret, struct error *e)
{
    return db_number(&q->db,
                     "SELECT id FROM batch WHERE published_us IS NOT NULL AND promoted_us IS NULL"
                     " AND id > ? AND NOT EXISTS (SELECT 1 FROM batch_dep JOIN batch AS other"
                     " ON other.id = on_batch WHERE batch_id = batch.id"
                     " AND other.finished_us IS NULL) ORDER BY id LIMIT 1",
                     SQL_ARGS(sql_int(after)), ret, e);
}

int batch_promote(struct queue *q, int64_t batch, bool *ret_more, struct error *e)
{
    int64_t due = 0;
    *ret_more = false;
    int rc = next_promotable(q, batch - 1, &due, e);
    if (rc <= 0 || due != batch)
        return rc < 0 ? rc : 0;
    rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    return db_end(&q->db, promote_rows(q, batch, ret_more, e), e);
}

static int promote_published(struct queue *q, bool *ret_more, struct error *e)
{
    int64_t batch = 0;
    int rc;
    while ((rc = next_promotable(q, batch, &batch, e)) == 1) {
        bool more = false;
        rc = batch_promote(q, batch, &more, e);
        if (rc != 0)
            return rc;
        *ret_more |= more;
    }
    return rc;
}

/* Runs an update only when its condition finds something: the write lock is not taken for nothing. */
static int update_due(struct queue *q, const char *find, const char *update, bool *ret_more,
                      struct error *e)
{
    int64_t now_us = clock_wall_us();
    int64_t one;
    int rc = db_number(&q->db, find, SQL_ARGS(sql_int(now_us)), &one, e);
    if (rc <= 0)
        return rc;
    rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&q->db, update, SQL_ARGS(sql_int(now_us)), e);
    if (rc == 0 && db_changes(&q->db) >= QUEUE_SCAN_ROWS)
        *ret_more = true;
    return db_end(&q->db, rc, e);
}

static int promote_in_time(struct queue *q, bool *ret_more, struct error *e)
{
    return update_due(q, "SELECT 1 FROM job WHERE (hold & 2) <> 0 AND not_before_us <= ? LIMIT 1",
                      "UPDATE job SET hold = hold & ~2, queued_us = ?1, changed_us = ?1,"
                      " state = CASE hold & ~2 WHEN 0 THEN 'queued' ELSE 'held' END"
                      " WHERE id IN (SELECT id FROM job WHERE (hold & 2) <> 0"
                      " AND not_before_us <= ?1 LIMIT 1000)",
                      ret_more, e);
}

#define TOO_LATE                                                                                   \
    " FROM job WHERE deadline_us < 9223372036854775807 AND state IN ('held', 'queued')"            \
    " AND deadline_us <= ?1 AND EXISTS (SELECT 1 FROM batch WHERE id = batch_id"                   \
    " AND published_us IS NOT NULL)"

static int expire(struct queue *q, bool *ret_more, struct error *e)
{
    return update_due(q, "SELECT 1" TOO_LATE " LIMIT 1",
                      "UPDATE job SET state = 'expired', hold = 0, suspect = NULL,"
                      " finish = 'batch_expired', changed_us = ?1"
                      " WHERE id IN (SELECT id" TOO_LATE " LIMIT 1000)",
                      ret_more, e);
}

/* A cancel that died half way. */
static int go_on_cancelling(struct queue *q, bool *ret_more, struct error *e)
{
    int64_t batch;
    int rc = db_number(&q->db,
                       "SELECT id FROM batch WHERE published_us IS NOT NULL AND finished_us IS NULL"
                       " AND cancelled_us IS NOT NULL LIMIT 1",
                       SQL_NONE, &batch, e);
    if (rc <= 0)
        return rc;
    uint64_t n = 0;
    rc = batch_cancel_some(q, batch, &n, e);
    *ret_more |= n > 0;
    return rc;
}

int queue_scan(struct queue *q, bool *ret_more, struct error *e)
{
    bool more = false;
    int rc = batch_delete_orphans(q, e);
    if (rc == 0)
        rc = go_on_cancelling(q, &more, e);
    if (rc == 0)
        rc = promote_published(q, &more, e);
    if (rc == 0)
        rc = promote_in_time(q, &more, e);
    if (rc == 0)
        rc = expire(q, &more, e);
    if (rc == 0)
        *ret_more = more;
    return rc;
}
