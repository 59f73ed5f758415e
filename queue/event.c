#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "queue/internal.h"

#define REASON_MAX_BYTES 4096

static struct sql_arg key_or_null(int64_t key)
{
    return key ? sql_int(key) : sql_c(NULL);
}

int event_add(struct queue *q, const char *kind, struct event_about about, const char *detail,
              struct error *e)
{
    return db_run(&q->db,
                  "INSERT INTO event (at_us, kind, batch_id, request_id, job_id, attempt, detail)"
                  " VALUES (?, ?, ?, ?, ?, ?, ?)",
                  SQL_ARGS(sql_int(clock_wall_us()), sql_c(kind), key_or_null(about.batch),
                           key_or_null(about.request), key_or_null(about.job),
                           key_or_null(about.attempt), sql_c(detail ? detail : "{}")),
                  e);
}

static void append_escaped(struct buf *out, struct str text)
{
    while (text.len > 0) {
        uint32_t rune;
        char utf8[4];
        size_t n = str_utf8_next(text, &rune);
        if (rune < 0x20)
            buf_printf(out, "\\u%04x", (unsigned)rune);
        else if (rune == '"' || rune == '\\')
            buf_printf(out, "\\%c", (char)rune);
        else
            buf_append(out, utf8, str_utf8_put(rune, utf8));
        text.ptr += n;
        text.len -= n;
    }
}

int event_reason(struct str text, char **ret, struct error *e)
{
    struct buf out;
    buf_init(&out, 6 * REASON_MAX_BYTES + 64);
    if (text.len > REASON_MAX_BYTES)
        text.len = REASON_MAX_BYTES;
    text.len = str_utf8_whole(text);
    buf_append_c(&out, "{\"reason\":\"");
    append_escaped(&out, text);
    buf_append_c(&out, "\"}");
    int rc = buf_check(&out, "reason of an event", e);
    if (rc == 0)
        *ret = buf_take(&out);
    buf_release(&out);
    return rc;
}
