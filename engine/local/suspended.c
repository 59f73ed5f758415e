#include "engine/local/suspended.h"

#include <string.h>

/* ------------------------------------------------------------------ what a sequence has */

static void add_part(struct suspended_parts *p, struct sequence_part part)
{
    struct sequence_part *last = p->n > 0 ? &p->part[p->n - 1] : NULL;
    if (last && last->n_layers == part.n_layers)
        last->n_rows += part.n_rows;
    else if (p->n < SEQUENCE_PARTS)
        p->part[p->n++] = part;
    else
        p->too_many = true;
}

void suspended_parts(const struct engine *en, const struct sequence *s, struct suspended_parts *ret)
{
    *ret = (struct suspended_parts){0};
    if (en->suspended > 0 && s->n_rows > 0)
        add_part(ret, (struct sequence_part){s->n_rows, en->suspended});
    for (uint32_t i = 0; i < s->kept.n_parts; i++)
        add_part(ret, s->kept.part[i]);
}

uint32_t suspended_rows(const struct sequence_part *part, uint32_t n_parts)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_parts; i++)
        n += part[i].n_rows;
    return n;
}

uint32_t suspended_positions(uint32_t n_cached, const struct sequence_part *part, uint32_t n_parts,
                             uint32_t il)
{
    for (uint32_t i = 0; i < n_parts && part[i].n_layers > il; i++)
        n_cached += part[i].n_rows;
    return n_cached;
}

uint32_t suspended_worth(const struct engine *en, uint32_t n_cached,
                         const struct sequence_part *part, uint32_t n_parts)
{
    uint64_t row_layers = 0;
    for (uint32_t i = 0; i < n_parts; i++)
        row_layers += (uint64_t)part[i].n_rows * part[i].n_layers;
    return n_cached + (uint32_t)(row_layers / en->model.hp.n_layers);
}

uint64_t suspended_carried_bytes(const struct engine *en, const struct sequence_part *part,
                                 uint32_t n_parts)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_parts; i++)
        bytes += part[i].n_rows * forward_carried_bytes(&en->model, part[i].n_layers);
    return bytes;
}

/* ------------------------------------------------------------------ going on */

uint32_t suspended_take_up(struct engine *en)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < en->n_running; i++) {
        struct sequence *s = en->running[i];
        if (s->n_rows > 0 && s->first_row != n) {
            forward_carried_move(en->forward, n, s->first_row, s->n_rows);
            memmove(en->rows + n, en->rows + s->first_row, s->n_rows * sizeof(*en->rows));
            s->first_row = n;
        }
        n += s->n_rows;
    }
    return n;
}

uint32_t suspended_share(struct engine *en)
{
    uint32_t n_layers = 0;
    uint32_t left = plan_max_rows(en->plan.slots, en->plan.chunk);
    for (uint32_t i = 0; i < en->n_running; i++) {
        struct sequence *s = en->running[i];
        const struct sequence_part *first = &s->kept.part[0];
        s->n_rows = 0;
        if (s->kept.n_parts == 0 || (n_layers > 0 && first->n_layers != n_layers))
            continue;
        n_layers = first->n_layers;
        s->n_rows = MIN_OF(first->n_rows, left);
        left -= s->n_rows;
    }
    return n_layers;
}

static int get(void *context, void *at, size_t bytes, struct error *e)
{
    struct sequence *s = context;
    int rc = file_read_at(&s->kept.file, at, bytes, s->kept.at, e);
    if (rc == 0)
        file_forget(&s->kept.file, bytes, s->kept.at);
    s->kept.at += bytes;
    return rc;
}

/* The rows of this step are no longer the file's. */
static void take_off(struct sequence *s)
{
    s->kept.part[0].n_rows -= s->n_rows;
    if (s->kept.part[0].n_rows > 0)
        return;
    s->kept.n_parts--;
    memmove(s->kept.part, s->kept.part + 1, s->kept.n_parts * sizeof(*s->kept.part));
    if (s->kept.n_parts == 0)
        file_close(&s->kept.file);
}

int suspended_load(struct engine *en, struct error *e)
{
    for (uint32_t i = 0; i < en->n_running; i++) {
        struct sequence *s = en->running[i];
        if (s->n_rows == 0)
            continue;
        int rc = forward_carried_visit(en->forward, s->kept.part[0].n_layers, s->first_row,
                                       s->n_rows, get, s, e);
        if (rc != 0)
            return error_wrap(e, "rows of a suspended step");
        take_off(s);
    }
    return 0;
}
