#include "queue/read.h"

#include <string.h>

#include "base/alloc.h"

#define FIRST_CAPACITY 16

static size_t list_limit(size_t limit)
{
    return limit == 0 || limit > QUEUE_LIST_ROWS ? QUEUE_LIST_ROWS : limit;
}

void release_list(const struct row_type *type, void *item, size_t n)
{
    for (size_t i = 0; i < n; i++)
        type->release((char *)item + i * type->size);
    mem_free(item);
}

/* A zeroed element at the end of the list. */
static void *grow(struct rows *r, const struct row_type *type, size_t *capacity)
{
    if (r->n == *capacity) {
        size_t wanted = *capacity ? *capacity * 2 : FIRST_CAPACITY;
        void *bigger = mem_regrow(r->item, wanted, type->size);
        if (!bigger)
            return NULL;
        r->item = bigger;
        *capacity = wanted;
    }
    void *element = (char *)r->item + r->n * type->size;
    memset(element, 0, type->size);
    r->n++;
    return element;
}

int read_list(struct queue *q, const struct row_type *type, const char *sql, struct sql_args args,
              size_t limit, struct rows *ret, struct error *e)
{
    struct rows rows = {0};
    size_t capacity = 0;
    size_t bytes = 0;
    sqlite3_stmt *stmt = NULL;
    limit = list_limit(limit);
    int rc = db_query(&q->db, sql, args, &stmt, e);
    while (rc == 0 && (rc = db_step(&q->db, stmt, e)) == 1) {
        rows.more = rows.n == limit || bytes >= QUEUE_LIST_BYTES;
        if (rows.more) {
            rc = 0;
            break;
        }
        void *element = grow(&rows, type, &capacity);
        rc = element ? type->copy(q, stmt, element, &bytes, e)
                     : error_set(e, ERROR_NOMEM, "no memory for a list of %zu rows", rows.n);
    }
    db_done(stmt);
    db_limit_cache(&q->db);
    if (rc < 0) {
        release_list(type, rows.item, rows.n);
        return rc;
    }
    *ret = rows;
    return 0;
}

int copy_text(sqlite3_stmt *stmt, int i, char **ret, size_t *bytes, struct error *e)
{
    int rc = col_copy(stmt, i, ret, e);
    if (rc == 0)
        *bytes += col_str(stmt, i).len;
    return rc;
}

/* ---- batches ---- */

static int copy_batch(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                      struct error *e)
{
    struct queue_batch *b = element;
    b->key = col_int(stmt, 0);
    col_bytes(stmt, 1, b->id.bytes, sizeof(b->id.bytes));
    b->created_us = col_int(stmt, 2);
    b->finished_us = col_int(stmt, 3);
    b->cancelled_us = col_int(stmt, 4);
    int rc = copy_text(stmt, 5, &b->name, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 6, &b->endpoint, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 7, &b->metadata_json, bytes, e);
    if (rc == 0)
        rc = read_counts(q, b->key, &b->counts, e);
    return rc;
}

static void release_batch(void *element)
{
    struct queue_batch *b = element;
    mem_free(b->name);
    mem_free(b->endpoint);
    mem_free(b->metadata_json);
}

static const struct row_type batch_type = {sizeof(struct queue_batch), copy_batch, release_batch};

#define BATCH_COLUMNS "id, uid, created_us, finished_us, cancelled_us, name, endpoint, metadata"

int queue_batches(struct queue *q, int64_t before_key, size_t limit, struct queue_batches *ret,
                  struct error *e)
{
    struct rows rows;
    int rc = read_list(q, &batch_type,
                       "SELECT " BATCH_COLUMNS " FROM batch WHERE published_us IS NOT NULL"
                       " AND id < ? ORDER BY id DESC",
                       SQL_ARGS(sql_int(before_key ? before_key : INT64_MAX)), limit, &rows, e);
    if (rc != 0)
        return rc;
    *ret = (struct queue_batches){.item = rows.item, .n = rows.n};
    ret->next_key = rows.more ? ret->item[ret->n - 1].key : 0;
    return 0;
}

int queue_batch(struct queue *q, struct queue_id id, struct queue_batches *ret, struct error *e)
{
    struct rows rows;
    int64_t key;
    int rc = batch_key(q, id, &key, e);
    if (rc == 0)
        rc = read_list(q, &batch_type, "SELECT " BATCH_COLUMNS " FROM batch WHERE id = ?",
                       SQL_ARGS(sql_int(key)), 1, &rows, e);
    if (rc == 0)
        *ret = (struct queue_batches){.item = rows.item, .n = rows.n};
    return rc;
}

void queue_batches_release(struct queue_batches *b)
{
    release_list(&batch_type, b->item, b->n);
    memset(b, 0, sizeof(*b));
}

/* ---- requests ---- */

int copy_request(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes, struct error *e)
{
    struct queue_request *r = element;
    (void)q;
    r->key = col_int(stmt, 0);
    col_bytes(stmt, 1, r->id.bytes, sizeof(r->id.bytes));
    col_bytes(stmt, 2, r->batch.bytes, sizeof(r->batch.bytes));
    int state = queue_state_parse((const char *)sqlite3_column_text(stmt, 4));
    r->state = state < 0 ? QUEUE_FAILED : (enum queue_state)state;
    r->hold = (unsigned)col_int(stmt, 5);
    r->priority = (int)col_int(stmt, 6);
    r->created_us = col_int(stmt, 7);
    r->finished_us = queue_state_final(r->state) ? col_int(stmt, 8) : 0;
    r->attempts = col_int(stmt, 9);
    r->http = (int)col_int(stmt, 11);
    int rc = copy_text(stmt, 3, &r->custom_id, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 10, &r->finish, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 12, &r->empty, bytes, e);
    return rc;
}

void release_request(void *element)
{
    struct queue_request *r = element;
    mem_free(r->custom_id);
    mem_free(r->finish);
    mem_free(r->empty);
}

static const struct row_type request_type = {sizeof(struct queue_request), copy_request,
                                             release_request};

/* Bits of states, tested by the statement. */
#define STATE_BIT                                                                                  \
    "CASE request.state WHEN 'held' THEN 1 WHEN 'queued' THEN 2 WHEN 'running' THEN 4"             \
    " WHEN 'done' THEN 8 WHEN 'failed' THEN 16 WHEN 'cancelled' THEN 32 ELSE 64 END"

/* What struct queue_filter asks for: ?1 its after_key, ?2 its states, ?3 its empty. */
#define FILTER                                                                                     \
    " AND request.id > ?1 AND (" STATE_BIT " & ?2) <> 0"                                           \
    " AND (?3 = 0 OR request.state = 'done' AND answer.empty IS NOT NULL) ORDER BY request.id"

int queue_requests(struct queue *q, const struct queue_filter *f, struct queue_requests *ret,
                   struct error *e)
{
    static const char of_batch[] =
        "SELECT " REQUEST_COLUMNS REQUEST_TABLES " WHERE request.batch_id = ?4" FILTER;
    static const char of_all[] =
        "SELECT " REQUEST_COLUMNS REQUEST_TABLES " WHERE batch.published_us IS NOT NULL" FILTER;
    struct rows rows;
    int64_t batch = 0;
    int64_t states = f->states ? f->states : (1 << QUEUE_STATE_COUNT) - 1;
    int rc = f->batch ? batch_key(q, *f->batch, &batch, e) : 0;
    if (rc != 0)
        return rc;
    if (f->batch)
        rc = read_list(
            q, &request_type, of_batch,
            SQL_ARGS(sql_int(f->after_key), sql_int(states), sql_int(f->empty), sql_int(batch)),
            f->limit, &rows, e);
    else
        rc = read_list(q, &request_type, of_all,
                       SQL_ARGS(sql_int(f->after_key), sql_int(states), sql_int(f->empty)),
                       f->limit, &rows, e);
    if (rc != 0)
        return rc;
    *ret = (struct queue_requests){.item = rows.item, .n = rows.n};
    ret->next_key = rows.more ? ret->item[ret->n - 1].key : 0;
    return 0;
}

void queue_requests_release(struct queue_requests *r)
{
    release_list(&request_type, r->item, r->n);
    memset(r, 0, sizeof(*r));
}

/* ---- events ---- */

static int copy_event(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                      struct error *e)
{
    struct queue_event *v = element;
    (void)q;
    v->key = col_int(stmt, 0);
    v->at_us = col_int(stmt, 1);
    col_bytes(stmt, 3, v->batch.bytes, sizeof(v->batch.bytes));
    col_bytes(stmt, 4, v->request.bytes, sizeof(v->request.bytes));
    v->job = col_int(stmt, 5);
    v->attempt = col_int(stmt, 6);
    int rc = copy_text(stmt, 2, &v->kind, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 7, &v->detail_json, bytes, e);
    return rc;
}

static void release_event(void *element)
{
    struct queue_event *v = element;
    mem_free(v->kind);
    mem_free(v->detail_json);
}

const struct row_type event_type = {sizeof(struct queue_event), copy_event, release_event};

int queue_events(struct queue *q, int64_t after_key, size_t limit, struct queue_events *ret,
                 struct error *e)
{
    /* An event of a job need not name the request: the job does. */
    struct rows rows;
    int rc = read_list(q, &event_type,
                       "SELECT event.id, at_us, event.kind, batch.uid, request.uid, job_id,"
                       " event.attempt, detail FROM event LEFT JOIN job ON job.id = job_id"
                       " LEFT JOIN request ON request.id = coalesce(event.request_id,"
                       " job.request_id) LEFT JOIN batch ON batch.id = coalesce(event.batch_id,"
                       " request.batch_id) WHERE event.id > ? ORDER BY event.id",
                       SQL_ARGS(sql_int(after_key)), limit, &rows, e);
    if (rc != 0)
        return rc;
    *ret = (struct queue_events){.item = rows.item, .n = rows.n};
    ret->next_key = rows.n ? ret->item[ret->n - 1].key : after_key;
    return 0;
}

int queue_events_last(struct queue *q, int64_t *ret_key, struct error *e)
{
    *ret_key = 0;
    int rc = db_number(&q->db, "SELECT max(id) FROM event", SQL_NONE, ret_key, e);
    return rc < 0 ? rc : 0;
}

void queue_events_release(struct queue_events *v)
{
    release_list(&event_type, v->item, v->n);
    memset(v, 0, sizeof(*v));
}
