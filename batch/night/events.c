/* What happened, in order: beginnings and ends of runs, their notes, orders of people, deaths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "batch/night/parts.h"
#include "batch/view.h"

/* Of all runs of a night. */
#define EVENTS_MAX 20000

/* Takes `text` (NULL: out of memory). */
static int add(struct night *n, int64_t at_us, int64_t run, const char *kind, char *text,
               struct error *e)
{
    struct night_event *more = NULL;
    if (text && n->n_events < EVENTS_MAX)
        more = mem_regrow(n->event, n->n_events + 1, sizeof(*more));
    if (!more) {
        const bool full = text != NULL && n->n_events >= EVENTS_MAX;
        mem_free(text);
        return full ? 0 : error_set(e, ERROR_NOMEM, "out of memory for events");
    }
    n->event = more;
    struct night_event *v = &more[n->n_events++];
    *v = (struct night_event){.at_us = at_us, .order = n->n_events, .run = run, .text = text};
    snprintf(v->kind, sizeof(v->kind), "%s", kind);
    return 0;
}

static void put_number(struct buf *out, const char *name, double value)
{
    static const char bytes[] = "_bytes";
    const size_t n = strlen(name), end = sizeof(bytes) - 1;
    char size[24];
    if (n > end && value >= 0 && strcmp(name + n - end, bytes) == 0)
        buf_printf(out, "%.*s %s", (int)(n - end), name, str_format_size((uint64_t)value, size));
    else
        buf_printf(out, "%s %.4g", name, value);
}

/* Members of an object that is not known here: ": pid 12, free 7.0 GiB". */
static void put_members(struct buf *out, const cJSON *detail)
{
    const cJSON *one;
    const char *between = ": ";
    cJSON_ArrayForEach(one, detail)
    {
        char *printed = NULL;
        buf_append_c(out, between);
        if (cJSON_IsNumber(one))
            put_number(out, one->string, one->valuedouble);
        else if (cJSON_IsString(one))
            buf_printf(out, "%s %s", one->string, one->valuestring);
        else if ((printed = cJSON_PrintUnformatted(one)))
            buf_printf(out, "%s %s", one->string, printed);
        cJSON_free(printed);
        between = ", ";
    }
}

static void put_text(struct buf *out, const char *kind, const cJSON *detail)
{
    char size[24];
    const char *text = night_word(detail, "text");
    if (!*text)
        text = night_word(detail, "reason");
    const int given_back = (int)night_number(detail, "given_back");
    if (strcmp(kind, "loaded") == 0) {
        buf_printf(out, "model loaded in %.1f s, %s read", night_number(detail, "seconds"),
                   str_format_size((uint64_t)night_number(detail, "bytes"), size));
        return;
    }
    if (strcmp(kind, "paused") == 0 || strcmp(kind, "resumed") == 0)
        buf_append_c(out,
                     *kind == 'p' ? "somebody paused the queue" : "somebody resumed the queue");
    else
        for (const char *c = kind; *c && strcmp(kind, "gate") != 0; c++)
            buf_append(out, *c == '_' ? " " : c, 1);
    if (*text)
        buf_printf(out, "%s%s", out->len ? ": " : "", text);
    else
        put_members(out, detail);
    if (given_back > 0)
        buf_printf(out, "; %d job%s given back", given_back, given_back == 1 ? "" : "s");
}

static int add_events(struct night *n, const struct queue_events *list, int64_t run,
                      struct error *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        const struct queue_event *v = &list->item[i];
        cJSON *detail = view_parse(v->detail_json);
        struct buf text;
        buf_init(&text, 1u << 16);
        put_text(&text, v->kind, detail);
        cJSON_Delete(detail);
        rc = buf_check(&text, "an event", e);
        if (rc == 0)
            rc = add(n, v->at_us, run, v->kind, buf_take(&text), e);
        buf_release(&text);
    }
    return rc;
}

static int add_notes(struct queue *q, struct night *n, const struct night_run *r, struct error *e)
{
    int64_t key = 0;
    int rc = 0;
    do {
        struct queue_events page = {0};
        rc = queue_run_notes(q, &r->span, key, &page, e);
        if (rc == 0)
            rc = add_events(n, &page, r->run.key, e);
        key = page.next_key;
        queue_events_release(&page);
    } while (rc == 0 && key);
    return rc;
}

static int add_beginning(struct night *n, const struct night_run *r, struct error *e)
{
    char text[64];
    snprintf(text, sizeof(text), "run %lld begins", (long long)r->run.key);
    if (r->run.started_us < r->span.from_us)
        return 0;
    return add(n, r->run.started_us, r->run.key, "begin", mem_strdup(text), e);
}

static int add_end(struct night *n, const struct night_run *r, struct error *e)
{
    char text[600], end[96];
    if (!r->run.why || r->run.known_us >= r->span.until_us)
        return 0;
    snprintf(text, sizeof(text), "run %lld ends: %s%s%s", (long long)r->run.key,
             night_end_text(&r->run, end), r->run.error ? "; " : "",
             r->run.error ? r->run.error : "");
    return add(n, r->run.known_us, r->run.key, "end", mem_strdup(text), e);
}

/* What happened at once stays in the order in which it was added. */
static int by_time(const void *a, const void *b)
{
    const struct night_event *x = a, *y = b;
    return x->at_us != y->at_us ? (x->at_us > y->at_us) - (x->at_us < y->at_us)
                                : (x->order > y->order) - (x->order < y->order);
}

int night_events(struct queue *q, struct night *n, struct error *e)
{
    struct queue_events told = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n->n_runs; i++) {
        rc = add_beginning(n, &n->run[i], e);
        if (rc == 0)
            rc = add_notes(q, n, &n->run[i], e);
        if (rc == 0)
            rc = add_end(n, &n->run[i], e);
    }
    if (rc == 0)
        rc = queue_told(q, n->from_us, n->until_us + 1, &told, e);
    if (rc == 0)
        rc = add_events(n, &told, 0, e);
    queue_events_release(&told);
    if (n->n_events > 1)
        qsort(n->event, n->n_events, sizeof(*n->event), by_time);
    return rc;
}
