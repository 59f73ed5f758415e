#include "batch/plan_json.h"

cJSON *plan_json(const struct engine_plan *p)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"slots", p->slots},
        {"ctx", p->ctx},
        {"chunk", p->chunk},
        {"process_bytes", p->process_bytes},
        {"trunk_bytes", p->trunk_bytes},
        {"repacked_bytes", p->repacked_bytes},
        {"streamed_layers", p->streamed_layers},
        {"streamed_bytes", p->streamed_bytes},
        {"ring_bytes", p->ring_bytes},
        {"experts_bytes", p->experts_bytes},
        {"expert_slots", p->expert_slots},
        {"expert_count", p->expert_count},
        {"state_bytes", p->state_bytes},
        {"scratch_bytes", p->scratch_bytes},
        {"io_bytes", p->io_bytes},
        {"cache_bytes", p->cache_bytes},
        {"total_bytes", p->total_bytes},
        {"smallest_bytes", p->smallest_bytes},
        {"per_sequence_bytes", p->per_sequence_bytes},
        {"per_token_bytes", p->per_token_bytes},
    };
    cJSON *plan = cJSON_CreateObject();
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        cJSON_AddNumberToObject(plan, numbers[i].name, (double)numbers[i].value);
    if (p->limit_bytes > 0)
        cJSON_AddNumberToObject(plan, "limit_bytes", (double)p->limit_bytes);
    cJSON_AddBoolToObject(plan, "fits", p->fits);
    return plan;
}
