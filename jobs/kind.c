#include "jobs/kind.h"

const struct job_kind *job_kind_at(size_t i)
{
    static const struct job_kind *const all[JOB_KIND_COUNT] = {
#define KIND(name, path) [JOB_KIND_##name] = &job_kind_##name,
#include "jobs/kinds.def"
#undef KIND
    };
    return i < JOB_KIND_COUNT ? all[i] : NULL;
}

const char *job_kind_endpoint(const struct job_kind *kind)
{
    static const char *const endpoint[JOB_KIND_COUNT] = {
#define KIND(name, path) [JOB_KIND_##name] = (path),
#include "jobs/kinds.def"
#undef KIND
    };
    return endpoint[kind->id];
}

const struct job_kind *job_kind_find(struct str endpoint)
{
    for (size_t i = 0; i < JOB_KIND_COUNT; i++) {
        const struct job_kind *kind = job_kind_at(i);
        if (str_equal_c(endpoint, job_kind_endpoint(kind)))
            return kind;
    }
    return NULL;
}
