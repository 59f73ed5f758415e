/* Which experts steps want, into a file. */
#include <string.h>

#include "engine/local/local.h"

int visits_open(struct engine *en, struct error *e)
{
    const struct hparams *hp = &en->model.hp;
    if (!en->o.trace_path)
        return 0;
    if (!en->experts)
        return error_set(e, ERROR_UNSUPPORTED, "%s: a model without experts", en->path);
    struct trace_header h = {.n_layers = hp->n_layers,
                             .n_experts = hp->n_experts,
                             .n_used = hp->n_experts_used,
                             .slot_bytes = experts_slot_bytes(en->model.experts, hp->n_layers)};
    memcpy(h.fingerprint, en->fingerprint, sizeof(h.fingerprint));
    return trace_create(&en->trace, en->o.trace_path, &h, e);
}

void visits_add(void *engine, uint32_t layer, uint32_t n_rows, const uint32_t *ids, uint32_t n)
{
    struct engine *en = engine;
    if (en->trace)
        trace_add(en->trace, layer, n_rows, ids, n);
}

int engine_trace(struct engine *en, struct error *e)
{
    struct trace_writer *w = en->trace;
    if (!w)
        return error_set(e, ERROR_INVALID, "%s: opened without a trace", en->path);
    en->trace = NULL;
    return trace_commit(w, e);
}
