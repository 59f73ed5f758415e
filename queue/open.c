#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "queue/checkpoint.h"
#include "queue/internal.h"
#include "queue/place.h"
#include "queue/schema.h"

#define BUSY_TIMEOUT_MS 30000
#define RESERVE_BYTES (32u << 20)
#define RESERVE_SUFFIX ".reserve"

const char *queue_sqlite_version(bool *ret_guarded)
{
    *ret_guarded = checkpoint_guarded();
    return sqlite3_libversion();
}

int queue_schema_version(void)
{
    return schema_version();
}

static int prepare_place(const char *path, const struct queue_options *opt, struct error *e)
{
    if (opt->create) {
        int rc = file_make_parent(path, e);
        if (rc != 0)
            return rc;
    } else if (access(path, F_OK) != 0) {
        return error_set(e, ERROR_NOTFOUND, "database %s: there is none; submit makes it", path);
    }
    return place_check(path, e);
}

static int open_database(struct queue *q, const char *path, const struct queue_options *opt,
                         struct error *e)
{
    bool current = false;
    int flags = SQLITE_OPEN_READWRITE | (opt->create ? SQLITE_OPEN_CREATE : 0);
    int busy_ms = opt->busy_timeout_ms > 0 ? opt->busy_timeout_ms : BUSY_TIMEOUT_MS;
    int rc = db_open(&q->db, path, flags, busy_ms, e);
    if (rc == 0)
        rc = schema_check(&q->db, &current, e);
    if (rc == 0)
        rc = db_configure(&q->db, e);
    if (rc == 0 && !current)
        rc = schema_migrate(&q->db, e);
    return rc;
}

static int name_reserve(struct queue *q, const char *path, struct error *e)
{
    struct buf name;
    buf_init(&name, 1u << 16);
    buf_append_c(&name, path);
    buf_append_c(&name, RESERVE_SUFFIX);
    int rc = buf_check(&name, "name of the reserve file", e);
    if (rc == 0)
        q->reserve_path = buf_take(&name);
    buf_release(&name);
    return rc;
}

int queue_open(const char *path, const struct queue_options *opt, struct queue **ret,
               struct error *e)
{
    const struct queue_options none = {0};
    if (!opt)
        opt = &none;
    int rc = prepare_place(path, opt, e);
    if (rc != 0)
        return rc;
    struct queue *q = mem_zalloc(sizeof(*q));
    if (!q)
        return error_set(e, ERROR_NOMEM, "database %s: no memory to open it", path);
    q->reserve_bytes = opt->reserve_bytes ? opt->reserve_bytes : RESERVE_BYTES;
    rc = open_database(q, path, opt, e);
    if (rc == 0)
        rc = name_reserve(q, path, e);
    if (rc != 0) {
        queue_close(q);
        return rc;
    }
    *ret = q;
    return 0;
}

void queue_close(struct queue *q)
{
    if (!q)
        return;
    db_close(&q->db);
    mem_free(q->reserve_path);
    mem_free(q);
}

const char *queue_path(const struct queue *q)
{
    return q->db.path;
}

static int key_of(struct queue *q, const char *sql, const char *what, struct queue_id id,
                  int64_t *ret, struct error *e)
{
    char text[37];
    int rc = db_number(&q->db, sql, SQL_ARGS(sql_blob(id.bytes, sizeof(id.bytes))), ret, e);
    if (rc == 0)
        return error_set(e, ERROR_NOTFOUND, "no %s %s in %s", what, clock_uuid_text(id.bytes, text),
                         q->db.path);
    return rc < 0 ? rc : 0;
}

int batch_key(struct queue *q, struct queue_id id, int64_t *ret, struct error *e)
{
    return key_of(q, "SELECT id FROM batch WHERE uid = ? AND published_us IS NOT NULL", "batch", id,
                  ret, e);
}

int request_key(struct queue *q, struct queue_id id, int64_t *ret, struct error *e)
{
    return key_of(q,
                  "SELECT request.id FROM request JOIN batch ON batch.id = batch_id"
                  " WHERE request.uid = ? AND published_us IS NOT NULL",
                  "request", id, ret, e);
}

int queue_checkpoint(struct queue *q, struct error *e)
{
    return checkpoint_run(&q->db, e);
}
