#include "batch/plan_json.h"

#include "batch/host/confine.h"

/* The budget, and what the kernel is told. */
static void add_limits(cJSON *plan, uint64_t budget_bytes)
{
    struct subgroup_limits l;
    confine_limits(budget_bytes, &l);
    cJSON_AddNumberToObject(plan, "limit_bytes", (double)budget_bytes);
    cJSON_AddNumberToObject(plan, "memory_high_bytes", (double)l.high_bytes);
    cJSON_AddNumberToObject(plan, "memory_max_bytes", (double)l.max_bytes);
}

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
        add_limits(plan, p->limit_bytes);
    cJSON_AddBoolToObject(plan, "fits", p->fits);
    return plan;
}
