#include "base/alloc.h"
#include "queue/internal.h"

struct queue_watch {
    struct db db;
    int64_t
        seen; /* PRAGMA data_version: moves when another connection commits; -1: not yet asked */
};

int queue_watch_open(const char *path, struct queue_watch **ret, struct error *e)
{
    struct queue_watch *w = mem_zalloc(sizeof(*w));
    if (!w)
        return error_set(e, ERROR_NOMEM, "database %s: no memory to watch it", path);
    w->seen = -1;
    int rc = db_open(&w->db, path, SQLITE_OPEN_READWRITE, 1000, e);
    if (rc == 0)
        rc = db_configure(&w->db, e);
    if (rc != 0) {
        queue_watch_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int queue_watch_poll(struct queue_watch *w, bool *ret_changed, struct error *e)
{
    int64_t now = 0;
    int rc = db_number(&w->db, "PRAGMA data_version", SQL_NONE, &now, e);
    if (rc < 0)
        return rc;
    *ret_changed = now != w->seen;
    w->seen = now;
    return 0;
}

void queue_watch_close(struct queue_watch *w)
{
    if (!w)
        return;
    db_close(&w->db);
    mem_free(w);
}
