#include "batch/worker/death.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "batch/host/cgroup.h"
#include "batch/host/figures.h"
#include "batch/host/subgroup.h"
#include "batch/view.h"

/* ---- While it lives --------------------------------------------------------------------------- */

/* A scope goes with its last process, and what it had counted. The one above has counted that, too. */
static size_t find_groups(struct cgroup_place ret[2])
{
    if (!cgroup_own("", &ret[0]))
        return 0;
    ret[1] = ret[0];
    char *slash = strrchr(ret[1].folder, '/');
    if (!ret[0].unified || strcmp(ret[0].name, "/") == 0 || !slash)
        return 1;
    *slash = '\0';
    return 2;
}

void death_note(cJSON *status)
{
    struct cgroup_place of[2];
    const size_t n = find_groups(of);
    cJSON *groups = n ? cJSON_AddArrayToObject(status, "groups") : NULL;
    for (size_t i = 0; i < n; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "folder", of[i].folder);
        cJSON_AddNumberToObject(o, "kills", (double)cgroup_kills(of[i].folder));
        cJSON_AddItemToArray(groups, o);
    }
}

uint64_t death_count(void)
{
    struct cgroup_place of[2];
    uint64_t sum = 0;
    for (size_t n = find_groups(of); n > 0; n--)
        sum += cgroup_kills(of[n - 1].folder);
    return sum;
}

/* ---- Afterwards ------------------------------------------------------------------------------- */

struct grown {
    const char *folder; /* of the status; NULL: none has */
    bool own;
    unsigned long long n;
};

/* The first one that is still there says it. */
static void look_at_groups(const cJSON *status, struct grown *ret)
{
    const cJSON *group;
    bool own = true;
    cJSON_ArrayForEach(group, cJSON_GetObjectItemCaseSensitive(status, "groups"))
    {
        const char *folder =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(group, "folder"));
        const double before =
            cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(group, "kills"));
        if (folder && access(folder, F_OK) == 0) {
            const double now = (double)cgroup_kills(folder);
            if (now > before)
                *ret = (struct grown){.folder = folder, .own = own, .n = (unsigned)(now - before)};
            return;
        }
        own = false;
    }
}

static const char *size_in(const char *folder, const char *second, const char *first, char out[24])
{
    int64_t n = figure_in(folder, second, "");
    if (n < 0)
        n = figure_in(folder, first, "");
    return n < 0 || n > INT64_C(1) << 60 ? "?" : str_format_size((uint64_t)n, out);
}

static void write_sentence(char *out, size_t size, int pid, const struct grown *g)
{
    char limit[24], peak[24], how[700] = "";
    if (g->folder && g->own)
        snprintf(how, sizeof(how), " (%.300s counts %llu killed; limit %s, peak %s)", g->folder,
                 g->n, size_in(g->folder, "memory.max", "memory.limit_in_bytes", limit),
                 size_in(g->folder, "memory.peak", "memory.max_usage_in_bytes", peak));
    else if (g->folder)
        snprintf(how, sizeof(how), " (%.300s counts %llu killed since it began)", g->folder, g->n);
    snprintf(out, size,
             "out of memory: the kernel killed the worker, process %d%s; give --memory less or "
             "end what takes the rest",
             pid, how);
}

/* Not one that we are in ourselves, by a number that came round again. */
static void remove_group(const cJSON *status)
{
    struct cgroup_place own;
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(status, "groups"), 0);
    const char *folder = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(first, "folder"));
    if (folder && (!cgroup_own("", &own) || strcmp(own.folder, folder) != 0))
        subgroup_remove(folder);
}

static int explain(struct queue *q, const struct queue_worker_info *dead, bool told,
                   bool *ret_killed, struct error *e)
{
    char why[1024];
    struct grown grown = {0};
    cJSON *status = view_parse(dead->status_json ? dead->status_json : "{}");
    look_at_groups(status, &grown);
    int rc = 0;
    if (told || grown.folder) {
        write_sentence(why, sizeof(why), dead->pid, &grown);
        rc = queue_worker_killed(q, str_of(why), ret_killed, e);
    }
    if (rc == 0)
        remove_group(status);
    cJSON_Delete(status);
    return rc;
}

int death_explain(struct queue *q, bool told, bool *ret_killed, struct error *e)
{
    struct queue_status s = {0};
    *ret_killed = false;
    int rc = queue_status(q, NULL, &s, e);
    /* After another boot it is clear why it is gone, and nothing has counted. */
    if (rc == 0 && s.worker.present && !s.worker.alive && s.worker.beat_age_ms >= 0)
        rc = explain(q, &s.worker, told, ret_killed, e);
    queue_status_release(&s);
    return rc;
}
