#include "batch/database.h"

#include <ctype.h>
#include <string.h>

#include "base/clock.h"

/* Shorter beginnings match by accident. */
#define PREFIX_MIN 4

int database_path(const struct options *o, struct buf *out, struct error *e)
{
    const char *given = option_text(o, OPTION_DB);
    const char *xdg = options_environment(o, "XDG_DATA_HOME");
    const char *home = options_environment(o, "HOME");
    if (given)
        buf_append_c(out, given);
    else if (xdg)
        buf_printf(out, "%s/nocturne/queue.db", xdg);
    else if (home)
        buf_printf(out, "%s/.local/share/nocturne/queue.db", home);
    else
        return error_set(
            e, ERROR_CONFIG,
            "no place for the database: neither --db nor XDG_DATA_HOME nor HOME is set");
    return buf_check(out, "path of the database", e);
}

int database_open(const struct options *o, bool create, struct queue **ret, struct error *e)
{
    struct buf path;
    buf_init(&path, 4096);
    int rc = database_path(o, &path, e);
    if (rc == 0) {
        struct queue_options opt = {
            .create = create,
            .reserve_bytes = option_size(o, OPTION_RESERVE),
            .busy_timeout_ms = (int)MAX_OF(option_us(o, OPTION_BUSY_TIMEOUT) / 1000, 1),
        };
        rc = queue_open(path.ptr, &opt, ret, e);
    }
    buf_release(&path);
    return rc;
}

const char *database_id_text(struct queue_id id, char out[37])
{
    return clock_uuid_text(id.bytes, out);
}

/* ---- Beginnings of ids ------------------------------------------------------------------------ */

static bool looks_like_prefix(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        if (!isxdigit((unsigned char)text[i]) && text[i] != '-')
            return false;
    }
    return n >= PREFIX_MIN && n < 36;
}

/* Notes a match; false when it is the second one. */
static bool note_match(const char *text, enum queue_kind kind, struct queue_id id, int *n_found,
                       struct queue_target *ret)
{
    char whole[37];
    database_id_text(id, whole);
    if (strncasecmp(whole, text, strlen(text)) != 0)
        return true;
    *ret = (struct queue_target){kind, id};
    return ++*n_found == 1;
}

static int scan_batches(struct queue *q, const char *text, int *n_found, struct queue_target *ret,
                        struct error *e)
{
    int64_t key = 0;
    do {
        struct queue_batches page = {0};
        int rc = queue_batches(q, key, QUEUE_LIST_ROWS, &page, e);
        if (rc)
            return rc;
        for (size_t i = 0; i < page.n; i++) {
            if (!note_match(text, QUEUE_KIND_BATCH, page.item[i].id, n_found, ret))
                break;
        }
        key = *n_found > 1 ? 0 : page.next_key;
        queue_batches_release(&page);
    } while (key);
    return 0;
}

static int scan_requests(struct queue *q, const char *text, const struct queue_id *batch,
                         int *n_found, struct queue_target *ret, struct error *e)
{
    struct queue_filter filter = {.batch = batch};
    do {
        struct queue_requests page = {0};
        int rc = queue_requests(q, &filter, &page, e);
        if (rc)
            return rc;
        for (size_t i = 0; i < page.n; i++) {
            if (!note_match(text, QUEUE_KIND_REQUEST, page.item[i].id, n_found, ret))
                break;
        }
        filter.after_key = *n_found > 1 ? 0 : page.next_key;
        queue_requests_release(&page);
    } while (filter.after_key);
    return 0;
}

int database_find(struct queue *q, const char *text, const struct queue_id *batch,
                  struct queue_target *ret, struct error *e)
{
    struct error why = {0};
    int rc = queue_find(q, str_of(text), batch, ret, &why);
    if (rc == -ERROR_NOTFOUND && looks_like_prefix(text)) {
        int n_found = 0;
        struct queue_target found = {0};
        rc = batch ? 0 : scan_batches(q, text, &n_found, &found, e);
        if (rc == 0 && n_found == 0)
            rc = scan_requests(q, text, batch, &n_found, &found, e);
        if (rc)
            return rc;
        if (n_found > 1)
            return error_set(e, ERROR_USAGE, "'%s' begins more than one id; give more of it", text);
        if (n_found == 1) {
            *ret = found;
            return 0;
        }
        rc = -ERROR_NOTFOUND;
    }
    if (rc && e)
        *e = why;
    return rc;
}

int database_find_batch(struct queue *q, const char *text, struct queue_id *ret, struct error *e)
{
    struct queue_target t;
    int rc = database_find(q, text, NULL, &t, e);
    if (rc)
        return rc;
    if (t.kind != QUEUE_KIND_BATCH)
        return error_set(e, ERROR_NOTFOUND, "'%s' is a request, not a batch", text);
    *ret = t.id;
    return 0;
}

int database_find_request(struct queue *q, const char *text, const struct queue_id *batch,
                          struct queue_id *ret, struct error *e)
{
    struct queue_target t;
    int rc = database_find(q, text, batch, &t, e);
    if (rc)
        return rc;
    if (t.kind != QUEUE_KIND_REQUEST)
        return error_set(e, ERROR_NOTFOUND, "'%s' is a batch, not a request", text);
    *ret = t.id;
    return 0;
}

int database_batch_option(struct queue *q, const struct options *o, struct queue_id *id,
                          const struct queue_id **ret, struct error *e)
{
    const char *text = option_text(o, OPTION_BATCH);
    *ret = NULL;
    if (!text)
        return 0;
    int rc = database_find_batch(q, text, id, e);
    if (rc == 0)
        *ret = id;
    return rc;
}
