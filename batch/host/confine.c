#include "batch/host/confine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/str.h"
#include "batch/host/scope.h"

#define BESIDE_PART 40
#define BESIDE_LEAST_BYTES (UINT64_C(32) << 20)
#define UNIT_BYTES (UINT64_C(1) << 20) /* limits are whole ones: the kernel knows pages only */
/* A limit that is there already may be this much above what would be set. */
#define ABOVE_PART 8
#define OOM_SCORE 900

void confine_limits(uint64_t budget_bytes, struct subgroup_limits *ret)
{
    const uint64_t beside = MAX_OF(budget_bytes / BESIDE_PART, BESIDE_LEAST_BYTES);
    /* No machine has it; nor may the sums overflow. */
    const uint64_t budget = MIN_OF(budget_bytes, UINT64_C(1) << 60);
    ret->high_bytes = ALIGN_UP(budget + beside, UNIT_BYTES);
    ret->max_bytes = ALIGN_UP(budget + 2 * beside, UNIT_BYTES);
}

/* Anybody may raise it; lower than it was would take a right, and is nobody's wish. */
static void volunteer(const char *root)
{
    char path[4096];
    struct buf text;
    buf_init(&text, 64);
    snprintf(path, sizeof(path), "%.4000s/proc/self/oom_score_adj", root);
    if (file_read_all(path, 64, &text, NULL) == 0 && buf_append(&text, "", 1) == 0 &&
        strtol(text.ptr, NULL, 10) < OOM_SCORE) {
        FILE *f = fopen(path, "we");
        if (f) {
            (void)fprintf(f, "%d\n", OOM_SCORE);
            (void)fclose(f);
        }
    }
    buf_release(&text);
}

static int limited(struct confine *c, uint64_t bytes, const char *what, const char *name)
{
    char size[24];
    c->limited = true;
    snprintf(c->says, sizeof(c->says), "the kernel limits memory to %s: %s%.900s",
             str_format_size(bytes, size), what, name);
    return 0;
}

static bool is_limited(struct confine *c, const char *root, uint64_t budget_bytes,
                       const struct subgroup_limits *l)
{
    struct cgroup_memory m;
    cgroup_memory(root, &m);
    if (m.limit_bytes < budget_bytes || m.limit_bytes > l->max_bytes + l->max_bytes / ABOVE_PART)
        return false;
    (void)limited(c, m.limit_bytes, "", m.file);
    return true;
}

int confine_enter(struct confine *c, const char *root, bool required, uint64_t budget_bytes,
                  bool entered, struct error *e)
{
    struct subgroup_limits limits;
    char no_scope[512] = "no limit in the new scope", no_group[512];
    memset(c, 0, sizeof(*c));
    volunteer(root);
    confine_limits(budget_bytes, &limits);
    if (is_limited(c, root, budget_bytes, &limits))
        return 0;
    if (!entered && *root == '\0')
        scope_enter(&limits, budget_bytes, no_scope);
    if (subgroup_make(&c->group, root, &limits, no_group))
        return limited(c, limits.max_bytes, "control group ", c->group.folder);
    if (required)
        return error_set(
            e, ERROR_UNSUPPORTED,
            "--confine require: the kernel cannot be told a limit on memory here: %s; %s", no_scope,
            no_group);
    snprintf(c->says, sizeof(c->says), "no limit of the kernel stands behind --memory here: %s; %s",
             no_scope, no_group);
    return 0;
}

void confine_leave(struct confine *c)
{
    subgroup_leave(&c->group);
}
