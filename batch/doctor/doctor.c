#include "batch/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "batch/host/figures.h"

static const struct {
    const char *name, *title;
    void (*look)(struct doctor *d);
} checks[] = {
#define CHECK(name, title) {#name, title, doctor_##name},
#include "batch/doctor/checks.def"
#undef CHECK
};

static void look_at(struct doctor *d, size_t i)
{
    d->check = checks[i].name;
    checks[i].look(d);
}

void doctor_look(struct doctor *d)
{
    d->found_all = true;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        look_at(d, i);
}

bool doctor_look_at(struct doctor *d, const char *check)
{
    d->found_all = true;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        if (strcmp(checks[i].name, check) == 0) {
            look_at(d, i);
            return true;
        }
    }
    return false;
}

const char *doctor_title(const char *check)
{
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(checks) && strcmp(checks[i].name, check) != 0)
        i++;
    return checks[i].title;
}

void doctor_forget(struct doctor *d)
{
    for (size_t i = 0; i < d->n; i++) {
        mem_free(d->finding[i].text);
        mem_free(d->finding[i].mend);
        cJSON_Delete(d->finding[i].values);
    }
    d->n = 0;
}

enum doctor_status doctor_worst(const struct doctor *d)
{
    enum doctor_status worst = DOCTOR_OK;
    for (size_t i = 0; i < d->n; i++)
        worst = MAX_OF(worst, d->finding[i].status);
    return worst;
}

const char *doctor_status_name(enum doctor_status s)
{
    static const char *const names[DOCTOR_STATUS_COUNT] = {"ok", "note", "warning", "problem"};
    return names[s];
}

/* ------------------------------------------------------------------ for checks */

void doctor_say(struct doctor *d, enum doctor_status status, const char *mend, const char *fmt, ...)
{
    char text[1500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (d->n == DOCTOR_FINDINGS_MAX)
        return;
    struct doctor_finding *f = &d->finding[d->n++];
    *f = (struct doctor_finding){.check = d->check,
                                 .status = status,
                                 .text = mem_strdup(text),
                                 .mend = mend ? mem_strdup(mend) : NULL};
    if (!f->text || (mend && !f->mend))
        d->found_all = false;
}

void doctor_value(struct doctor *d, const char *name, double value)
{
    struct doctor_finding *f = d->n ? &d->finding[d->n - 1] : NULL;
    if (f && !f->values)
        f->values = cJSON_CreateObject();
    if (f && !cJSON_AddNumberToObject(f->values, name, value))
        d->found_all = false;
}

const char *doctor_read(const struct doctor *d, const char *path, char *out, size_t size)
{
    struct buf text;
    const char *all = figures_read(&text, d->root, path);
    size_t n = strlen(all);
    while (n > 0 && all[n - 1] == '\n')
        n--;
    snprintf(out, size, "%.*s", (int)MIN_OF(n, size - 1), all);
    buf_release(&text);
    return out;
}

bool doctor_exists(const struct doctor *d, const char *path)
{
    char full[4300];
    struct stat st;
    snprintf(full, sizeof(full), "%.4000s/%.256s", d->root, path);
    return lstat(full, &st) == 0;
}

bool doctor_live(const struct doctor *d)
{
    return d->root[0] == '\0';
}
