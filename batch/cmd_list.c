#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/view.h"

/* How rows leave: aligned, one JSON array, or an object a line. */
struct listing {
    struct command_context *c;
    cJSON *array; /* --json */
    bool lines;   /* --jsonl */
    uint64_t left;
};

static int listing_begin(struct listing *l, struct command_context *c, struct error *e)
{
    *l = (struct listing){.c = c, .lines = option_on(c->options, OPTION_JSONL)};
    l->left = option_given(c->options, OPTION_LIMIT)
                  ? (uint64_t)option_int(c->options, OPTION_LIMIT)
                  : UINT64_MAX;
    if (!option_on(c->options, OPTION_JSON) || l->lines)
        return 0;
    l->array = cJSON_CreateArray();
    return l->array ? 0 : error_set(e, ERROR_NOMEM, "out of memory for JSON");
}

static int listing_json(struct listing *l, cJSON *row, struct error *e)
{
    if (l->lines)
        return output_json(l->c->out, row, false, e);
    if (!row || !cJSON_AddItemToArray(l->array, row))
        return error_set(e, ERROR_NOMEM, "out of memory for JSON");
    return 0;
}

static int listing_end(struct listing *l, int rc, struct error *e)
{
    if (l->array && rc == 0)
        return output_json(l->c->out, l->array, true, e);
    cJSON_Delete(l->array);
    return rc;
}

static bool listing_is_json(const struct listing *l)
{
    return l->array || l->lines;
}

static int put_requests(struct listing *l, const struct queue_requests *page, struct error *e)
{
    static const char *const titles[] = {"REQUEST",   "CUSTOM_ID", "STATE", ">PRIORITY",
                                         ">ATTEMPTS", "FINISHED",  NULL};
    struct table t;
    int rc = 0;
    if (!listing_is_json(l))
        table_init(&t, l->c->out, titles);
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        const struct queue_request *r = &page->item[i];
        char id[37], at[32], state[64];
        if (listing_is_json(l)) {
            rc = listing_json(l, view_request(r), e);
            continue;
        }
        table_cell(&t, "%s", database_id_text(r->id, id));
        table_cell(&t, "%s", r->custom_id);
        table_cell(&t, "%s%s", view_state(r->state, r->hold, state), r->empty ? ", empty" : "");
        table_cell(&t, "%d", r->priority);
        table_cell(&t, "%lld", (long long)r->attempts);
        table_cell(&t, "%s", view_time(r->finished_us, at));
    }
    return listing_is_json(l) ? rc : table_end(&t, e);
}

static int state_filter(const struct options *o, unsigned *ret, struct error *e)
{
    const char *text = option_text(o, OPTION_STATE);
    *ret = 0;
    if (!text)
        return 0;
    int state = queue_state_parse(text);
    if (state < 0)
        return error_set(
            e, ERROR_USAGE,
            "--state: '%s' is not held, queued, running, done, failed, cancelled or expired", text);
    *ret = 1u << state;
    return 0;
}

static int list_requests(struct listing *l, struct queue *q, struct error *e)
{
    struct queue_id id;
    struct queue_filter f = {0};
    int rc = state_filter(l->c->options, &f.states, e);
    if (rc == 0)
        rc = database_batch_option(q, l->c->options, &id, &f.batch, e);
    do {
        struct queue_requests page = {0};
        f.limit = (size_t)MIN_OF(l->left, (uint64_t)QUEUE_LIST_ROWS);
        if (rc == 0)
            rc = queue_requests(q, &f, &page, e);
        if (rc == 0)
            rc = put_requests(l, &page, e);
        l->left -= page.n;
        f.after_key = page.next_key;
        queue_requests_release(&page);
    } while (rc == 0 && f.after_key && l->left && !output_broken(l->c->out));
    return rc;
}

static int put_batches(struct listing *l, const struct queue_batches *page, struct error *e)
{
    static const char *const titles[] = {"BATCH", "NAME",    "SUBMITTED", ">REQUESTS",
                                         ">DONE", ">FAILED", ">LEFT",     NULL};
    struct table t;
    int rc = 0;
    if (!listing_is_json(l))
        table_init(&t, l->c->out, titles);
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        const struct queue_batch *b = &page->item[i];
        char id[37], at[32];
        if (listing_is_json(l)) {
            rc = listing_json(l, view_batch(b), e);
            continue;
        }
        table_cell(&t, "%s", database_id_text(b->id, id));
        table_cell(&t, "%s", b->name && *b->name ? b->name : "-");
        table_cell(&t, "%s", view_time(b->created_us, at));
        table_cell(&t, "%llu", (unsigned long long)b->counts.total);
        table_cell(&t, "%llu", (unsigned long long)b->counts.state[QUEUE_DONE]);
        table_cell(&t, "%llu", (unsigned long long)view_unsuccessful(&b->counts));
        table_cell(&t, "%llu", (unsigned long long)view_unfinished(&b->counts));
    }
    return listing_is_json(l) ? rc : table_end(&t, e);
}

static int list_batches(struct listing *l, struct queue *q, struct error *e)
{
    int64_t key = 0;
    int rc = 0;
    do {
        struct queue_batches page = {0};
        rc = queue_batches(q, key, (size_t)MIN_OF(l->left, (uint64_t)QUEUE_LIST_ROWS), &page, e);
        if (rc == 0)
            rc = put_batches(l, &page, e);
        l->left -= page.n;
        key = page.next_key;
        queue_batches_release(&page);
    } while (rc == 0 && key && l->left && !output_broken(l->c->out));
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    int rc = database_open(c->options, false, &q, e);
    struct listing l = {0};
    if (rc == 0)
        rc = listing_begin(&l, c, e);
    if (rc == 0)
        rc = option_on(c->options, OPTION_BATCHES) ? list_batches(&l, q, e)
                                                   : list_requests(&l, q, e);
    rc = listing_end(&l, rc, e);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_BATCHES, OPTION_BATCH, OPTION_STATE, OPTION_LIMIT,
                                         OPTION_JSON,    OPTION_JSONL, OPTION_NONE};

const struct command command_list = {
    .name = "list",
    .arguments = "",
    .option = options,
    .details = "Requests in the order they arrived; with --batches, batches, the newest first.",
    .examples = "nocturne list --state failed\nnocturne list --batches\n"
                "nocturne list -b nightly --jsonl",
    .run = run,
};
