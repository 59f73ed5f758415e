#include <string.h>

#include "base/alloc.h"
#include "queue/read.h"

static int copy_result(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                       struct error *e)
{
    struct queue_result *r = element;
    (void)q;
    r->key = col_int(stmt, 0);
    col_bytes(stmt, 1, r->request.bytes, sizeof(r->request.bytes));
    col_bytes(stmt, 2, r->batch.bytes, sizeof(r->batch.bytes));
    int state = queue_state_parse((const char *)sqlite3_column_text(stmt, 5));
    r->state = state < 0 ? QUEUE_FAILED : (enum queue_state)state;
    r->http = (int)col_int(stmt, 6);
    r->attempts = col_int(stmt, 9);
    r->wait_us = col_int(stmt, 10);
    int rc = copy_text(stmt, 3, &r->custom_id, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 4, &r->endpoint, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 7, &r->finish, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 8, &r->json, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 11, &r->empty, bytes, e);
    return rc;
}

static void release_result(void *element)
{
    struct queue_result *r = element;
    mem_free(r->custom_id);
    mem_free(r->endpoint);
    mem_free(r->finish);
    mem_free(r->json);
    mem_free(r->empty);
}

static const struct row_type result_type = {sizeof(struct queue_result), copy_result,
                                            release_result};

#define RESULT_COLUMNS                                                                             \
    " request.uid, batch.uid, custom_id, coalesce(request.endpoint, batch.endpoint), "             \
    "answer.state,"                                                                                \
    " answer.http, answer.finish, json,"                                                           \
    " (SELECT sum(attempt) FROM job WHERE request_id = request.id),"                               \
    " (SELECT wait_us FROM attempt WHERE job_id = answer.id AND attempt = answer.attempt),"        \
    " answer.empty"
#define RESULT_TABLES                                                                              \
    " JOIN batch ON batch.id = request.batch_id JOIN job AS answer ON answer.id = answer_job"      \
    " LEFT JOIN result ON result.job_id = answer.id"
/* Final, or being retried with a good result that stays until a better one comes. */
#define HAS_ANSWER                                                                                 \
    " AND (answer.state = 'done' OR request.state NOT IN ('held', 'queued', 'running'))"

/* `of_batch` takes ?1 the key to go on from and ?2 the batch. */
static int read_results(struct queue *q, const char *of_batch, const char *of_all,
                        const struct queue_id *batch, int64_t after_key, size_t limit,
                        struct queue_results *ret, struct error *e)
{
    struct rows rows;
    int64_t key = 0;
    int rc = batch ? batch_key(q, *batch, &key, e) : 0;
    if (rc != 0)
        return rc;
    if (batch)
        rc = read_list(q, &result_type, of_batch, SQL_ARGS(sql_int(after_key), sql_int(key)), limit,
                       &rows, e);
    else
        rc = read_list(q, &result_type, of_all, SQL_ARGS(sql_int(after_key)), limit, &rows, e);
    if (rc != 0)
        return rc;
    *ret = (struct queue_results){.item = rows.item, .n = rows.n, .more = rows.more};
    ret->next_key = rows.n ? ret->item[ret->n - 1].key : after_key;
    return 0;
}

int queue_results(struct queue *q, const struct queue_id *batch, int64_t after_key, size_t limit,
                  struct queue_results *ret, struct error *e)
{
    static const char of_batch[] =
        "SELECT request.id," RESULT_COLUMNS " FROM request" RESULT_TABLES
        " WHERE request.batch_id = ?2 AND request.id > ?1" HAS_ANSWER " ORDER BY request.id";
    static const char of_all[] = "SELECT request.id," RESULT_COLUMNS " FROM request" RESULT_TABLES
                                 " WHERE request.id > ?1" HAS_ANSWER " ORDER BY request.id";
    return read_results(q, of_batch, of_all, batch, after_key, limit, ret, e);
}

int queue_results_follow(struct queue *q, const struct queue_id *batch, int64_t after_key,
                         size_t limit, struct queue_results *ret, struct error *e)
{
    static const char of_batch[] =
        "SELECT event.id," RESULT_COLUMNS " FROM event JOIN request"
        " ON request.id = event.request_id" RESULT_TABLES
        " WHERE event.kind = 'final' AND event.again = 0 AND event.batch_id = ?2 AND event.id > ?1"
        " ORDER BY event.id";
    static const char of_all[] =
        "SELECT event.id," RESULT_COLUMNS " FROM event JOIN request"
        " ON request.id = event.request_id" RESULT_TABLES
        " WHERE event.kind = 'final' AND event.again = 0 AND event.id > ?1 ORDER BY event.id";
    return read_results(q, of_batch, of_all, batch, after_key, limit, ret, e);
}

void queue_results_release(struct queue_results *r)
{
    release_list(&result_type, r->item, r->n);
    memset(r, 0, sizeof(*r));
}
