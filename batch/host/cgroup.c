#include "batch/host/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "batch/host/figures.h"

#define PATH_BYTES CGROUP_PATH_BYTES
/* The first version's word for no limit is a number close to 2^63. */
#define NO_LIMIT (UINT64_C(1) << 60)

/* The files of a version, and the keys of its memory.stat, whole words. */
struct version {
    const char *file_system; /* as mountinfo names it */
    const char *limits[2];
    const char *usage;
    const char *hierarchical; /* a limit further up than can be seen; NULL: the version has none */
    const char *cache[2];
    const char *io; /* the controller of block devices; and what it has read, behind that word */
    const char *io_file, *io_read;
};

static const struct version versions[] = {
    {"cgroup2",
     {"memory.max", "memory.high"},
     "memory.current",
     NULL,
     {"inactive_file", "active_file"},
     "io",
     "io.stat",
     " rbytes="},
    {"cgroup",
     {"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     "hierarchical_memory_limit",
     {"total_inactive_file", "total_active_file"},
     "blkio",
     "blkio.throttle.io_service_bytes_recursive",
     " Read "},
};

/* ------------------------------------------------------------------ reading */

/* NO_LIMIT: there is none, or it is "max". */
static uint64_t number_in(const char *folder, const char *file, const char *key)
{
    const int64_t n = figure_in(folder, file, key);
    return n < 0 ? NO_LIMIT : (uint64_t)n;
}

bool cgroup_has_word(const char *folder, const char *file, const char *word)
{
    const size_t n = strlen(word);
    bool found = false;
    struct buf text;
    for (const char *at = figures_read(&text, folder, file); *at && !found;) {
        const size_t length = strcspn(at, " \n");
        found = length == n && strncmp(at, word, n) == 0;
        at += length + (at[length] != '\0');
    }
    buf_release(&text);
    return found;
}

static uint64_t known(uint64_t n)
{
    return n < NO_LIMIT ? n : 0;
}

/* ------------------------------------------------------------------ one group */

static void consider(struct cgroup_memory *ret, uint64_t limit, uint64_t others, const char *folder,
                     const char *file)
{
    const uint64_t left = limit - MIN_OF(limit, others);
    if (limit >= NO_LIMIT || left >= ret->left_bytes)
        return;
    ret->limit_bytes = limit;
    ret->left_bytes = left;
    snprintf(ret->file, sizeof(ret->file), "%.400s/%.64s", folder, file);
}

static void look_at(struct cgroup_memory *ret, const struct version *v, const char *folder,
                    uint64_t own)
{
    uint64_t used = known(number_in(folder, v->usage, ""));
    for (size_t i = 0; i < ARRAY_LEN(v->cache); i++)
        used -= MIN_OF(used, known(number_in(folder, "memory.stat", v->cache[i])));
    used -= MIN_OF(used, own);
    for (size_t i = 0; i < ARRAY_LEN(v->limits); i++) {
        if (v->limits[i])
            consider(ret, number_in(folder, v->limits[i], ""), used, folder, v->limits[i]);
    }
    if (v->hierarchical)
        consider(ret, number_in(folder, "memory.stat", v->hierarchical), used, folder,
                 "memory.stat");
}

/* ------------------------------------------------------------------ the way up */

/* Whether `word` is one of a list with commas. */
static bool is_listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ','), at += at != NULL) {
        if (strncmp(at, word, n) == 0 && (at[n] == '\0' || at[n] == ','))
            return true;
    }
    return false;
}

/* The process's group of that version, from "4:memory:/a/b" or "0::/a/b". */
static bool own_group(const char *text, const struct version *v, const char *controller,
                      char out[PATH_BYTES])
{
    const bool unified = v->hierarchical == NULL;
    char list[256];
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        int id = -1, at = 0;
        list[0] = '\0';
        if (sscanf(line, "%d:%n", &id, &at) != 1 || at == 0)
            continue;
        const char *path = strchr(line + at, ':');
        if (!path)
            continue;
        snprintf(list, sizeof(list), "%.*s", (int)(path - line - at), line + at);
        if (unified ? id != 0 || *list : !is_listed(list, controller))
            continue;
        snprintf(out, PATH_BYTES, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
        return true;
    }
    return false;
}

/* Where a version's tree is mounted, and which of its groups stands there. */
static bool mounted(const char *text, const struct version *v, const char *controller,
                    char top[PATH_BYTES], char point[PATH_BYTES])
{
    char type[32], options[1024];
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *tail = strstr(line, " - ");
        const char *end = strchr(line, '\n');
        if (!tail || (end && end < tail) ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", top, point) != 2 ||
            sscanf(tail, " - %31s %*s %1023s", type, options) != 2)
            continue;
        if (strcmp(type, v->file_system) == 0 &&
            (!v->hierarchical || is_listed(options, controller)))
            return true;
    }
    return false;
}

/* From the process's group to the one that is mounted. */
static void climb(struct cgroup_memory *ret, const struct version *v, const char *point,
                  char *group, uint64_t own)
{
    char folder[PATH_BYTES * 3];
    for (;;) {
        snprintf(folder, sizeof(folder), "%s%s", point, strcmp(group, "/") == 0 ? "" : group);
        look_at(ret, v, folder, own);
        char *slash = strrchr(group, '/');
        if (!slash || group[1] == '\0')
            return;
        slash[slash == group] = '\0';
    }
}

/* What the kernel says about the process's own groups. */
struct own {
    const char *root;
    struct buf groups_text, mounts_text;
    const char *groups, *mounts;
};

static void own_open(struct own *o, const char *root)
{
    char self[PATH_BYTES];
    o->root = root;
    snprintf(self, sizeof(self), "%s/proc/self", root);
    o->groups = figures_read(&o->groups_text, self, "cgroup");
    o->mounts = figures_read(&o->mounts_text, self, "mountinfo");
}

static void own_close(struct own *o)
{
    buf_release(&o->groups_text);
    buf_release(&o->mounts_text);
}

/* Where a controller's tree stands, and the process's group in it: "/" and more. */
static bool find_group(const struct own *o, const struct version *v, const char *controller,
                       char place[PATH_BYTES * 2], char group[PATH_BYTES])
{
    char top[PATH_BYTES], point[PATH_BYTES];
    if (!own_group(o->groups, v, controller, group) ||
        !mounted(o->mounts, v, controller, top, point))
        return false;
    /* In a container the paths are the host's: what stands above the mount cannot be seen. */
    const size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strncmp(group, top, n) != 0)
        snprintf(group, PATH_BYTES, "/");
    else
        memmove(group, group + n, strlen(group + n) + 1);
    if (group[0] != '/')
        snprintf(group, PATH_BYTES, "/");
    snprintf(place, PATH_BYTES * 2, "%s%s", o->root, point);
    return true;
}

bool cgroup_own(const char *root, struct cgroup_place *ret)
{
    char place[PATH_BYTES * 2];
    struct own o;
    bool found = false;
    own_open(&o, root);
    /* The first version first: a controller is in one tree only, and the other one is there, too. */
    for (size_t i = ARRAY_LEN(versions); !found && i-- > 0;) {
        const struct version *v = &versions[i];
        if (!find_group(&o, v, "memory", place, ret->name))
            continue;
        ret->unified = v->hierarchical == NULL;
        const int n = snprintf(ret->folder, sizeof(ret->folder), "%s%s", place,
                               strcmp(ret->name, "/") == 0 ? "" : ret->name);
        found = n < (int)sizeof(ret->folder) &&
                (!ret->unified || number_in(ret->folder, v->usage, "") < NO_LIMIT ||
                 cgroup_has_word(ret->folder, "cgroup.controllers", "memory"));
    }
    own_close(&o);
    return found;
}

uint64_t cgroup_kills(const char *folder)
{
    const uint64_t second = number_in(folder, "memory.events", "oom_kill");
    return second < NO_LIMIT ? second : known(number_in(folder, "memory.oom_control", "oom_kill"));
}

void cgroup_memory(const char *root, struct cgroup_memory *ret)
{
    char folder[PATH_BYTES], place[PATH_BYTES * 2], group[PATH_BYTES];
    struct own o;
    *ret = (struct cgroup_memory){.limit_bytes = UINT64_MAX, .left_bytes = UINT64_MAX};
    snprintf(folder, sizeof(folder), "%s/proc/self", root);
    const uint64_t own = known(number_in(folder, "status", "RssAnon")) * 1024;
    own_open(&o, root);
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (find_group(&o, &versions[i], "memory", place, group))
            climb(ret, &versions[i], place, group, own);
    }
    own_close(&o);
}

/* ------------------------------------------------------------------ block devices */

/* The numbers behind that word, one for each device; false: there is none. */
static bool sum_behind(const char *text, const char *word, uint64_t *ret)
{
    const char *at = strstr(text, word);
    const bool any = at != NULL;
    *ret = 0;
    for (; at; at = strstr(at, word)) {
        at += strlen(word);
        *ret += strtoull(at, NULL, 10);
    }
    return any;
}

bool cgroup_read_bytes(const char *root, uint64_t *ret)
{
    char place[PATH_BYTES * 2], group[PATH_BYTES], folder[PATH_BYTES * 3];
    struct own o;
    bool found = false;
    own_open(&o, root);
    for (size_t i = 0; !found && i < ARRAY_LEN(versions); i++) {
        const struct version *v = &versions[i];
        struct buf text;
        if (!find_group(&o, v, v->io, place, group))
            continue;
        snprintf(folder, sizeof(folder), "%s%s", place, group);
        found = sum_behind(figures_read(&text, folder, v->io_file), v->io_read, ret);
        buf_release(&text);
    }
    own_close(&o);
    return found;
}

/* ------------------------------------------------------------------ where */

static void place_of(const struct own *o, const struct version *v, const char *controller,
                     char out[CGROUP_PATH_BYTES])
{
    char place[PATH_BYTES * 2], group[PATH_BYTES];
    out[0] = '\0';
    if (!find_group(o, v, controller, place, group))
        return;
    const int n =
        snprintf(out, CGROUP_PATH_BYTES, "%s%s", place, strcmp(group, "/") == 0 ? "" : group);
    if (n < 0 || n >= CGROUP_PATH_BYTES)
        out[0] = '\0';
}

void cgroup_find(const char *root, struct cgroup_places *ret)
{
    struct cgroup_memory least;
    struct own o;
    own_open(&o, root);
    place_of(&o, &versions[0], "", ret->unified);
    place_of(&o, &versions[1], "memory", ret->memory);
    place_of(&o, &versions[1], "cpu", ret->cpu);
    own_close(&o);
    cgroup_memory(root, &least);
    snprintf(ret->limit, sizeof(ret->limit), "%.*s",
             (int)(least.file[0] ? strrchr(least.file, '/') - least.file : 0), least.file);
}
