/* The memory plan as JSON, the same wherever it is shown. The tree is the caller's. */
#ifndef BATCH_PLAN_JSON_H
#define BATCH_PLAN_JSON_H

#include <cjson/cJSON.h>

#include "engine/engine.h"

cJSON *plan_json(const struct engine_plan *p);

#endif
