#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "queue/internal.h"

/* A transaction stays below 4 MiB with the pages that indexes and counts take. */
#define FLUSH_BYTES (2u << 20)
#define FLUSH_ROWS 1000
#define ROW_OVERHEAD_BYTES 700
/* One request may be larger than a transaction should be: then it is alone in one. */
#define GATHERED_MAX_BYTES (1u << 30)

/* A gathered request; its strings stand one after the other in `gathered`. */
struct pending {
    size_t start;
    size_t custom_bytes, endpoint_bytes, body_bytes;
    int priority;
    int64_t not_before_us, deadline_us;
    uint64_t line;
};

struct queue_submit {
    struct queue *q;
    int64_t batch;
    struct queue_id id;
    unsigned hold; /* what every job of the batch starts with */
    uint64_t n_written;
    struct buf gathered;
    size_t n_pending;
    struct pending pending[FLUSH_ROWS];
};

static int add_dependency(struct queue_submit *s, struct queue_id on, struct error *e)
{
    int64_t key;
    int64_t finished_us;
    int rc = batch_key(s->q, on, &key, e);
    if (rc != 0)
        return rc;
    rc = db_number(&s->q->db, "SELECT finished_us FROM batch WHERE id = ?", SQL_ARGS(sql_int(key)),
                   &finished_us, e);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    s->hold |= QUEUE_HOLD_DEPENDENCY;
    return db_run(&s->q->db, "INSERT OR IGNORE INTO batch_dep VALUES (?, ?)",
                  SQL_ARGS(sql_int(s->batch), sql_int(key)), e);
}

static int add_batch(struct queue_submit *s, const struct queue_batch_options *opt, struct error *e)
{
    struct db *db = &s->q->db;
    char boot[37];
    struct str metadata = opt->metadata_json.len ? opt->metadata_json : str_of("{}");
    clock_boot_id(boot);
    int rc = db_run(db,
                    "INSERT INTO batch (uid, name, endpoint, metadata, created_us, submitter_pid,"
                    " submitter_start, submitter_boot) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    SQL_ARGS(sql_blob(s->id.bytes, sizeof(s->id.bytes)),
                             sql_text(opt->name.ptr ? opt->name : str_of("")),
                             sql_text(opt->endpoint.ptr ? opt->endpoint : str_of("")),
                             sql_text(metadata), sql_int(clock_wall_us()), sql_int(getpid()),
                             sql_int((int64_t)clock_process_start(getpid())), sql_c(boot)),
                    e);
    s->batch = db_last_id(db);
    for (size_t i = 0; rc == 0 && i < opt->n_after; i++)
        rc = add_dependency(s, opt->after[i], e);
    return rc;
}

int queue_submit_begin(struct queue *q, const struct queue_batch_options *opt,
                       struct queue_submit **ret, struct error *e)
{
    int rc = batch_delete_orphans(q, e);
    if (rc != 0)
        return rc;
    struct queue_submit *s = mem_zalloc(sizeof(*s));
    if (!s)
        return error_set(e, ERROR_NOMEM, "no memory to gather a batch (%zu bytes)", sizeof(*s));
    s->q = q;
    s->hold = QUEUE_HOLD_SUBMITTING;
    buf_init(&s->gathered, GATHERED_MAX_BYTES);
    clock_uuid7(s->id.bytes);
    rc = db_begin(&q->db, e);
    if (rc == 0)
        rc = db_end(&q->db, add_batch(s, opt, e), e);
    if (rc != 0) {
        buf_release(&s->gathered);
        mem_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int refuse_duplicate(struct queue_submit *s, const struct pending *p, struct str custom,
                            struct error *e)
{
    int64_t line = 0;
    int rc = db_number(&s->q->db, "SELECT line FROM request WHERE batch_id = ? AND custom_id = ?",
                       SQL_ARGS(sql_int(s->batch), sql_text(custom)), &line, e);
    if (rc < 0)
        return rc;
    if (p->line == 0)
        return error_set(e, ERROR_BADDATA, "custom_id '%.*s' stands twice in the batch",
                         (int)MIN_OF(custom.len, (size_t)200), custom.ptr);
    return error_set(e, ERROR_BADDATA,
                     "line %" PRIu64 ": custom_id '%.*s' was used by line %" PRId64 " already",
                     p->line, (int)MIN_OF(custom.len, (size_t)200), custom.ptr, line);
}

static int write_job(struct queue_submit *s, const struct pending *p, struct str body,
                     unsigned hold, struct error *e)
{
    struct db *db = &s->q->db;
    int64_t request = db_last_id(db);
    int64_t now_us = clock_wall_us();
    int rc = db_run(db, "INSERT INTO body (bytes) VALUES (?)",
                    SQL_ARGS(sql_blob(body.ptr, body.len)), e);
    if (rc != 0)
        return rc;
    return db_run(db,
                  "INSERT INTO job (request_id, batch_id, role, body_id, state, hold, priority,"
                  " not_before_us, deadline_us, queued_us, changed_us)"
                  " VALUES (?, ?, 'answer', ?, 'held', ?, ?, ?, ?, ?8, ?8)",
                  SQL_ARGS(sql_int(request), sql_int(s->batch), sql_int(db_last_id(db)),
                           sql_int(hold), sql_int(p->priority), sql_int(p->not_before_us),
                           sql_int(p->deadline_us ? p->deadline_us : QUEUE_NO_DEADLINE),
                           sql_int(now_us)),
                  e);
}

static int write_request(struct queue_submit *s, const struct pending *p, struct error *e)
{
    const char *bytes = s->gathered.ptr + p->start;
    struct str custom = str_slice(bytes, p->custom_bytes);
    struct str endpoint = str_slice(bytes + p->custom_bytes, p->endpoint_bytes);
    struct str body = str_slice(bytes + p->custom_bytes + p->endpoint_bytes, p->body_bytes);
    unsigned hold = s->hold | (p->not_before_us > clock_wall_us() ? QUEUE_HOLD_NOT_BEFORE : 0);
    uint8_t uid[16];
    clock_uuid7(uid);
    int rc = db_run(&s->q->db,
                    "INSERT INTO request (uid, batch_id, custom_id, endpoint, line, state, hold,"
                    " changed_us) VALUES (?, ?, ?, ?, ?, 'held', ?, ?)"
                    " ON CONFLICT (batch_id, custom_id) DO NOTHING",
                    SQL_ARGS(sql_blob(uid, sizeof(uid)), sql_int(s->batch), sql_text(custom),
                             endpoint.len ? sql_text(endpoint) : sql_c(NULL),
                             sql_int((int64_t)p->line), sql_int(hold), sql_int(clock_wall_us())),
                    e);
    if (rc == 0 && db_changes(&s->q->db) == 0)
        rc = refuse_duplicate(s, p, custom, e);
    if (rc == 0)
        rc = write_job(s, p, body, hold, e);
    return rc;
}

/* Whether the batch is still there: it goes when its submitter looks dead from elsewhere. */
static int check_ours(struct queue_submit *s, struct error *e)
{
    int64_t one;
    int rc =
        db_number(&s->q->db, "SELECT 1 FROM batch WHERE id = ? AND uid = ?",
                  SQL_ARGS(sql_int(s->batch), sql_blob(s->id.bytes, sizeof(s->id.bytes))), &one, e);
    if (rc == 0)
        return error_set(e, ERROR_CONFLICT, "the batch being submitted was deleted by another");
    return rc < 0 ? rc : 0;
}

static int flush(struct queue_submit *s, struct error *e)
{
    if (s->n_pending == 0)
        return 0;
    int rc = db_begin(&s->q->db, e);
    if (rc != 0)
        return rc;
    rc = check_ours(s, e);
    for (size_t i = 0; rc == 0 && i < s->n_pending; i++)
        rc = write_request(s, &s->pending[i], e);
    rc = db_end(&s->q->db, rc, e);
    if (rc == 0) {
        s->n_written += s->n_pending;
        s->n_pending = 0;
        buf_clear(&s->gathered);
    }
    return rc;
}

int queue_submit_add(struct queue_submit *s, const struct queue_new_request *r, struct error *e)
{
    size_t bytes = r->custom_id.len + r->endpoint.len + r->body.len;
    if (s->n_pending > 0 &&
        s->gathered.len + bytes + (s->n_pending + 1) * ROW_OVERHEAD_BYTES > FLUSH_BYTES) {
        int rc = flush(s, e);
        if (rc != 0)
            return rc;
    }
    struct pending *p = &s->pending[s->n_pending];
    *p = (struct pending){.start = s->gathered.len,
                          .custom_bytes = r->custom_id.len,
                          .endpoint_bytes = r->endpoint.len,
                          .body_bytes = r->body.len,
                          .priority = r->priority,
                          .not_before_us = r->not_before_us,
                          .deadline_us = r->deadline_us,
                          .line = r->line};
    buf_append_str(&s->gathered, r->custom_id);
    buf_append_str(&s->gathered, r->endpoint);
    buf_append_str(&s->gathered, r->body);
    int rc = buf_check(&s->gathered, "requests gathered for a transaction", e);
    if (rc != 0)
        return rc;
    s->n_pending++;
    return s->n_pending == FLUSH_ROWS ? flush(s, e) : 0;
}

/* 1 and the id of an unfinished batch of the same identity, or 0. */
static int find_same(struct queue_submit *s, const uint8_t *identity, struct queue_id *ret,
                     struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&s->q->db,
                      "SELECT uid FROM batch WHERE identity = ? AND published_us IS NOT NULL"
                      " AND finished_us IS NULL AND cancelled_us IS NULL ORDER BY id LIMIT 1",
                      SQL_ARGS(sql_blob(identity, 32)), &stmt, e);
    if (rc == 0)
        rc = db_step(&s->q->db, stmt, e);
    if (rc == 1) {
        col_bytes(stmt, 0, ret->bytes, sizeof(ret->bytes));
        db_done(stmt);
    }
    return rc;
}

/* The one row that makes the batch everybody's. 1 when another one was found instead. */
static int publish_or_find(struct queue_submit *s, const uint8_t *identity, bool force,
                           struct queue_id *ret_found, struct error *e)
{
    struct queue *q = s->q;
    if (identity && !force) {
        int found = find_same(s, identity, ret_found, e);
        if (found != 0)
            return found;
    }
    int rc = db_run(&q->db,
                    "UPDATE batch SET published_us = ?, identity = ?"
                    " WHERE id = ? AND uid = ? AND published_us IS NULL",
                    SQL_ARGS(sql_int(clock_wall_us()), sql_blob(identity, 32), sql_int(s->batch),
                             sql_blob(s->id.bytes, sizeof(s->id.bytes))),
                    e);
    if (rc == 0 && db_changes(&q->db) != 1)
        rc = error_set(e, ERROR_CONFLICT, "the batch being submitted was deleted by another");
    if (rc == 0)
        rc = event_add(q, "published", (struct event_about){.batch = s->batch}, NULL, e);
    return rc;
}

/* Best effort: the batch is durable, and the worker's scan does what is left here. */
static void promote_all(struct queue_submit *s)
{
    bool more = true;
    while (more && batch_promote(s->q, s->batch, &more, NULL) == 0)
        continue;
}

int queue_submit_publish(struct queue_submit *s, const uint8_t *identity, bool force,
                         struct queue_id *ret_batch, bool *ret_found, struct error *e)
{
    struct queue_id found_id;
    int rc = flush(s, e);
    if (rc != 0)
        return rc;
    if (s->n_written == 0)
        return error_set(e, ERROR_INVALID, "the batch has no requests");
    rc = db_begin(&s->q->db, e);
    if (rc != 0)
        return rc;
    int found = publish_or_find(s, identity, force, &found_id, e);
    rc = db_end(&s->q->db, found < 0 ? found : 0, e);
    if (rc != 0)
        return rc;
    *ret_batch = found ? found_id : s->id;
    *ret_found = found;
    if (found) {
        queue_submit_abort(s);
        return 0;
    }
    promote_all(s);
    buf_release(&s->gathered);
    mem_free(s);
    return 0;
}

void queue_submit_abort(struct queue_submit *s)
{
    if (!s)
        return;
    /* What cannot be deleted now (a full disk) is an orphan once this process is gone. */
    batch_delete(s->q, s->batch, NULL);
    buf_release(&s->gathered);
    mem_free(s);
}
