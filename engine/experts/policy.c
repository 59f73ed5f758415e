#include "engine/experts/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

static const struct expert_policy *const policies[] = {
#define EXPERT_POLICY(ident) &expert_policy_##ident,
#include "engine/experts/policies.def"
#undef EXPERT_POLICY
};

const struct expert_policy *expert_policy_at(size_t i)
{
    return i < ARRAY_LEN(policies) ? policies[i] : NULL;
}

int expert_policy_find(const char *name, const struct expert_policy **ret, struct error *e)
{
    char known[100] = "";
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        if (!name || strcmp(policies[i]->name, name) == 0) {
            *ret = policies[i];
            return 0;
        }
        if (at < sizeof(known))
            at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "",
                                   policies[i]->name);
    }
    return error_set(e, ERROR_UNSUPPORTED, "expert policy '%s': there are %s", name, known);
}

size_t expert_policy_bytes(const struct expert_policy_shape *shape)
{
    size_t most = 0;
    for (size_t i = 0; i < ARRAY_LEN(policies); i++)
        most = MAX_OF(most, policies[i]->bytes(shape));
    return most;
}
