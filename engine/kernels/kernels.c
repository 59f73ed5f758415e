#include "engine/kernels/kernels.h"

#include <stdio.h>
#include <string.h>

/* Rows of this list are the only places that say which tables were compiled in. */
const struct kernels *const kernels_all[] = {
    &kernels_generic,
#if defined(__x86_64__)
    &kernels_avx2,
    &kernels_avx512,
#elif defined(__aarch64__)
    &kernels_neon,
    &kernels_neon_i8mm,
#endif
    NULL,
};

size_t act_row_bytes(enum act_kind kind, size_t n)
{
    if (kind == ACT_Q8)
        return n / 32 * sizeof(struct act_q8);
    if (kind == ACT_Q8K)
        return n / 256 * sizeof(struct act_q8k);
    return n * sizeof(float);
}

static int pick_named(const char *isa, const struct cpu *c, const struct kernels **ret,
                      struct error *e)
{
    for (size_t i = 0; kernels_all[i]; i++) {
        if (strcmp(kernels_all[i]->name, isa) != 0)
            continue;
        if (!kernels_all[i]->supported(c))
            return error_set(e, ERROR_UNSUPPORTED, "isa '%s': this processor does not have it",
                             isa);
        *ret = kernels_all[i];
        return 0;
    }
    char known[100] = "auto";
    for (size_t i = 0, at = strlen(known); kernels_all[i] && at < sizeof(known); i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s %s",
                               kernels_all[i + 1] ? "," : " and", kernels_all[i]->name);
    return error_set(e, ERROR_UNSUPPORTED, "isa '%s': not known here, %s are", isa, known);
}

int kernels_pick(const char *isa, const struct kernels **ret, struct error *e)
{
    struct cpu c;
    cpu_detect(&c);
    if (isa && strcmp(isa, "auto") != 0)
        return pick_named(isa, &c, ret, e);
    for (size_t i = 0; kernels_all[i]; i++) {
        if (kernels_all[i]->supported(&c))
            *ret = kernels_all[i];
    }
    return 0;
}
