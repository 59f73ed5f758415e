#include "batch/host/process.h"

#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "batch/host/figures.h"

#define PATH_BYTES 4300
/* Of /proc/PID/stat: the start, behind the name, which may itself have blanks and brackets. */
#define FIELDS_TO_START 20

static void find_user(const char *folder, char out[32])
{
    char room[2048];
    struct stat st;
    struct passwd entry, *found = NULL;
    out[0] = '\0';
    if (stat(folder, &st) != 0)
        return;
    if (getpwuid_r(st.st_uid, &entry, room, sizeof(room), &found) == 0 && found)
        snprintf(out, 32, "%s", found->pw_name);
    else
        snprintf(out, 32, "uid %u", (unsigned)st.st_uid);
}

/* What strangers named is shown on terminals. */
static void make_harmless(char *text)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
}

/* The command line; a kernel thread or a zombie has none, but a name. */
static void find_command(const char *folder, char out[48])
{
    char path[PATH_BYTES], text[512];
    struct buf name;
    snprintf(path, sizeof(path), "%.4096s/cmdline", folder);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        (void)fclose(f);
    while (n > 0 && text[n - 1] == '\0')
        n--;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(text[i] == '\0' ? ' ' : text[i]);
    text[n] = '\0';
    const char *comm = figures_read(&name, folder, "comm");
    snprintf(out, 48, "%.*s", n > 0 ? 47 : (int)strcspn(comm, "\n"), n > 0 ? text : comm);
    buf_release(&name);
    make_harmless(out);
}

/* Seconds after the boot that it began; negative: unknown. */
static double find_start_s(const char *folder)
{
    struct buf text;
    const char *at = strrchr(figures_read(&text, folder, "stat"), ')');
    for (int i = 0; at && i < FIELDS_TO_START; i++)
        at = strchr(at + 1, ' ');
    const long hertz = sysconf(_SC_CLK_TCK);
    const double start_s = at && hertz > 0 ? strtod(at, NULL) / (double)hertz : -1;
    buf_release(&text);
    return start_s;
}

static int64_t find_age_s(const char *root, const char *folder)
{
    char path[PATH_BYTES];
    struct buf text;
    const double start_s = find_start_s(folder);
    snprintf(path, sizeof(path), "%.4096s/proc", root);
    const char *up = figures_read(&text, path, "uptime");
    const bool known = *up && start_s >= 0;
    const double age_s = known ? strtod(up, NULL) - start_s : 0;
    buf_release(&text);
    return known ? (int64_t)MAX_OF(age_s, 0.0) : -1;
}

bool process_describe(const char *root, int pid, struct process *ret)
{
    char folder[PATH_BYTES];
    *ret = (struct process){.pid = pid, .age_s = -1};
    snprintf(folder, sizeof(folder), "%.4096s/proc/%d", root, pid);
    const int64_t kib = figure_in(folder, "status", "VmRSS");
    ret->resident_bytes = (uint64_t)MAX_OF(kib, INT64_C(0)) * 1024;
    find_user(folder, ret->user);
    if (!ret->user[0])
        return false;
    find_command(folder, ret->command);
    ret->age_s = find_age_s(root, folder);
    return true;
}

bool process_largest(const char *root, int except, struct process *ret)
{
    char path[PATH_BYTES], folder[PATH_BYTES + 32];
    int64_t most_kib = 0;
    int pid = 0;
    snprintf(path, sizeof(path), "%.4096s/proc", root);
    DIR *d = opendir(path);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
        const long n = strtol(entry->d_name, NULL, 10);
        if (n <= 0 || n == except)
            continue;
        snprintf(folder, sizeof(folder), "%s/%ld", path, n);
        const int64_t kib = figure_in(folder, "status", "VmRSS");
        if (kib > most_kib) {
            most_kib = kib;
            pid = (int)n;
        }
    }
    if (d)
        closedir(d);
    return pid > 0 && process_describe(root, pid, ret);
}

const char *process_text(const struct process *p, char out[PROCESS_TEXT_BYTES])
{
    if (p->command[0])
        snprintf(out, PROCESS_TEXT_BYTES, "pid %d of %s, '%s'", p->pid,
                 p->user[0] ? p->user : "nobody known", p->command);
    else
        snprintf(out, PROCESS_TEXT_BYTES, "pid %d, of which nothing is known here", p->pid);
    return out;
}
