#include "batch/host/facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/compiler.h"
#include "batch/host/figures.h"

/* What follows "key  :" at the beginning of a line, up to its end. */
static void copy_value(const char *text, const char *key, char *out, size_t size)
{
    const size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at = line + n;
        if (strncmp(line, key, n) != 0 || (*at != ':' && *at != '\t' && *at != ' '))
            continue;
        at += strspn(at, " \t:");
        snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
        return;
    }
}

void facts_read(const char *root, struct facts *ret)
{
    /* x86 has the first; of other architectures some have one of the others. */
    static const char *const names[] = {"model name", "Model", "Hardware", "cpu model"};
    char folder[FIGURES_PATH_BYTES];
    struct utsname system;
    struct buf text;
    memset(ret, 0, sizeof(*ret));
    if (uname(&system) == 0) {
        snprintf(ret->host, sizeof(ret->host), "%s", system.nodename);
        snprintf(ret->kernel, sizeof(ret->kernel), "%s %s %s", system.sysname, system.release,
                 system.machine);
    }
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    ret->cores = cores > 0 ? (int)cores : 0;
    snprintf(folder, sizeof(folder), "%s/proc", root);
    const char *cpus = figures_read(&text, folder, "cpuinfo");
    for (size_t i = 0; i < ARRAY_LEN(names) && !*ret->cpu; i++)
        copy_value(cpus, names[i], ret->cpu, sizeof(ret->cpu));
    buf_release(&text);
    ret->memory_bytes =
        (uint64_t)MAX_OF(figure_in(folder, "meminfo", "MemTotal"), INT64_C(0)) * 1024;
}
