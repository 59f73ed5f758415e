#include "batch/host/subgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "batch/host/figures.h"

#define NAME "nocturne-"
/* A group that was just left may be busy for an instant. */
#define REMOVE_TRIES 50
#define REMOVE_PAUSE_US 2000

/* ------------------------------------------------------------------ files of a group */

/* One write(2), as the kernel wants it. */
static bool put(const char *folder, const char *file, const char *text)
{
    char path[CGROUP_PATH_BYTES + 128];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    if (fd < 0)
        return false;
    const bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    const int sys = errno;
    close(fd);
    errno = sys;
    return good;
}

static bool put_number(const char *folder, const char *file, uint64_t n)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, n);
    return put(folder, file, text);
}

static bool has_file(const char *folder, const char *file)
{
    char path[CGROUP_PATH_BYTES + 128];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return access(path, F_OK) == 0;
}

static bool move_to(const char *folder)
{
    return put_number(folder, "cgroup.procs", (uint64_t)getpid());
}

static bool refuse(char why[512], const char *what, const char *folder)
{
    snprintf(why, 512, "%s %.350s: %.80s", what, folder, strerror(errno));
    return false;
}

/* ------------------------------------------------------------------ may it be */

/* systemd marks what it gave away; all else of its tree it keeps to itself. */
static bool is_marked(const char *folder)
{
    static const char *const names[] = {"user.delegate", "trusted.delegate"};
    char value[8];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (getxattr(folder, names[i], value, sizeof(value)) >= 1 && value[0] == '1')
            return true;
    }
    return false;
}

/* Without such a manager a folder was given away by making it a user's. */
static bool is_users_own(const char *folder)
{
    struct stat st;
    return geteuid() != 0 && stat(folder, &st) == 0 && st.st_uid == geteuid();
}

/* Only the top has no type: a process there may stay beside groups with controllers. */
static bool is_open_top(const char *folder)
{
    return !has_file(folder, "cgroup.type") &&
           cgroup_has_word(folder, "cgroup.subtree_control", "memory");
}

/*
 * A group of the second version with groups that have controllers takes no process any more. One that we
 * leave like that, being killed, may be somebody's to fill; so it has to be given away.
 */
bool subgroup_allowed(const struct cgroup_place *parent, const char *root, char why[512])
{
    const char *folder = parent->folder;
    char path[CGROUP_PATH_BYTES];
    snprintf(path, sizeof(path), "%.4000s/run/systemd/system", root);
    const bool managed = access(path, F_OK) == 0;
    if (!is_marked(folder) &&
        (managed || (parent->unified && !is_users_own(folder) && !is_open_top(folder)))) {
        snprintf(why, 512, "%.400s is not delegated", folder);
        return false;
    }
    return access(folder, W_OK) == 0 || refuse(why, "no group can be made in", folder);
}

/* ------------------------------------------------------------------ what others left */

/* Groups of processes that are no more, but for those that say how theirs ended. */
static void sweep(const struct subgroup *g)
{
    char folder[CGROUP_PATH_BYTES + 300];
    DIR *d = opendir(g->parent.folder);
    for (const struct dirent *entry; d && (entry = readdir(d)) != NULL;) {
        if (strncmp(entry->d_name, NAME, strlen(NAME)) != 0)
            continue;
        const int pid = (int)strtol(entry->d_name + strlen(NAME), NULL, 10);
        snprintf(folder, sizeof(folder), "%s/%s", g->parent.folder, entry->d_name);
        if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH && cgroup_kills(folder) == 0)
            (void)rmdir(folder);
    }
    if (d)
        closedir(d);
}

void subgroup_remove(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    if (!slash || strncmp(slash + 1, NAME, strlen(NAME)) != 0)
        return;
    for (int i = 0; i < REMOVE_TRIES && rmdir(folder) != 0 && errno == EBUSY; i++)
        clock_sleep_us(REMOVE_PAUSE_US);
}

/* ------------------------------------------------------------------ making it */

static bool limit_unified(const struct subgroup *g, const struct subgroup_limits *l)
{
    /* What a kernel lacks of these is a comfort, not the limit. */
    (void)put_number(g->folder, "memory.swap.max", 0);
    (void)put(g->folder, "memory.oom.group", "1");
    (void)put_number(g->folder, "memory.high", l->high_bytes);
    return put_number(g->folder, "memory.max", l->max_bytes) &&
           figure_in(g->folder, "memory.max", "") == (int64_t)l->max_bytes;
}

static bool limit_first(const struct subgroup *g, const struct subgroup_limits *l)
{
    (void)put_number(g->folder, "memory.swappiness", 0);
    if (!put_number(g->folder, "memory.limit_in_bytes", l->max_bytes))
        return false;
    (void)put_number(g->folder, "memory.memsw.limit_in_bytes", l->max_bytes);
    return figure_in(g->folder, "memory.limit_in_bytes", "") == (int64_t)l->max_bytes;
}

/* No group but the top may have both processes and groups with controllers: so first we move. */
static bool enter(struct subgroup *g, const struct subgroup_limits *l, char why[512])
{
    if (!g->parent.unified) {
        if (!limit_first(g, l))
            return refuse(why, "no limit can be set in", g->folder);
        return move_to(g->folder) || refuse(why, "cannot enter", g->folder);
    }
    if (!move_to(g->folder))
        return refuse(why, "cannot enter", g->folder);
    if (!cgroup_has_word(g->parent.folder, "cgroup.subtree_control", "memory")) {
        g->enabled = put(g->parent.folder, "cgroup.subtree_control", "+memory");
        if (!g->enabled && errno == EBUSY) {
            snprintf(why, 512, "other processes are in %.400s", g->parent.folder);
            return false;
        }
        if (!g->enabled)
            return refuse(why, "no memory controller below", g->parent.folder);
    }
    return limit_unified(g, l) || refuse(why, "no limit can be set in", g->folder);
}

bool subgroup_make(struct subgroup *g, const char *root, const struct subgroup_limits *limits,
                   char why[512])
{
    memset(g, 0, sizeof(*g));
    if (!cgroup_own(root, &g->parent)) {
        snprintf(why, 512, "no control group here has the memory controller");
        return false;
    }
    if (!subgroup_allowed(&g->parent, root, why))
        return false;
    sweep(g);
    snprintf(g->folder, sizeof(g->folder), "%s/" NAME "%d", g->parent.folder, (int)getpid());
    /* One that is there is of a dead process with our number. */
    if (mkdir(g->folder, 0755) != 0 && errno != EEXIST)
        return refuse(why, "no group can be made in", g->parent.folder);
    g->made = true;
    if (enter(g, limits, why))
        return true;
    subgroup_leave(g);
    return false;
}

void subgroup_leave(struct subgroup *g)
{
    if (!g->made)
        return;
    if (g->enabled)
        (void)put(g->parent.folder, "cgroup.subtree_control", "-memory");
    (void)move_to(g->parent.folder);
    subgroup_remove(g->folder);
    memset(g, 0, sizeof(*g));
}
