#include "batch/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "batch/when.h"

struct option_item {
    enum option_id id;
    const char *text;
};

static const struct option_row rows[OPTION_COUNT] = {
#define OPTION(id, row_flag, row_letter, row_kind, row_min, row_max, arg, row_value, row_where,    \
               row_help)                                                                           \
    [OPTION_##id] = {.flag = row_flag,                                                             \
                     .letter = row_letter,                                                         \
                     .kind = OPTION_##row_kind,                                                    \
                     .min = row_min,                                                               \
                     .max = row_max,                                                               \
                     .argument = arg,                                                              \
                     .value = row_value,                                                           \
                     .where = OPTION_##row_where,                                                  \
                     .help = row_help},
#include "batch/options.def"
#undef OPTION
};

const struct option_row *option_row(enum option_id id)
{
    return &rows[id];
}

/* ---- One value -------------------------------------------------------------------------------- */

static int parse_flag(const char *text, bool *ret, struct error *e)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret = text == yes[i] || strcmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return error_set(e, ERROR_USAGE, "'%s' is neither true nor false", text);
}

static int parse_bounded_duration(const struct option_row *row, const char *text, int64_t *ret,
                                  struct error *e)
{
    int64_t us = 0;
    int rc = when_parse_duration(text, &us, e);
    if (rc)
        return rc;
    if ((double)us < row->min * 1e6 || (double)us > row->max * 1e6)
        return error_set(e, ERROR_USAGE, "'%s' is not between %.10gs and %.10gs", text, row->min,
                         row->max);
    *ret = us;
    return 0;
}

static int parse_bounded_size(const struct option_row *row, const char *text, uint64_t *ret,
                              struct error *e)
{
    int rc = str_parse_size(text, ret, e);
    if (rc == 0 && (double)*ret < row->min)
        rc = error_set(e, ERROR_USAGE, "'%s' is less than %.10g bytes", text, row->min);
    return rc;
}

/* `words`: "on|off|auto" */
static int check_word(const char *words, const char *text, struct error *e)
{
    size_t n = strlen(text);
    for (const char *at = words; n && at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == n && strncmp(at, text, n) == 0)
            return 0;
    }
    return error_set(e, ERROR_USAGE, "'%s' is none of %s", text, words);
}

/* Results replace what is there, but not a model or a queue, which nobody could make again. */
static int check_output(const char *path, struct error *e)
{
    /* What SQLite has not moved to its database yet lies in the log beside it. */
    static const char *const kept[] = {"GGUF", "SQLite format 3", "\x37\x7f\x06\x82",
                                       "\x37\x7f\x06\x83"};
    struct file f = {0};
    char begins[16] = "";
    if (file_open(&f, path, NULL) == 0)
        (void)file_read_at(&f, begins, (size_t)MIN_OF(f.size, sizeof(begins)), 0, NULL);
    file_close(&f);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        if (strncmp(begins, kept[i], strlen(kept[i])) == 0)
            return error_set(e, ERROR_USAGE, "'%s' is a %s, which is not overwritten", path,
                             i == 0 ? "model" : "database"); /* or its log */
    }
    return 0;
}

/* Everything about a value but where it came from. */
static int value_parse(const struct option_row *row, const char *text, struct option_value *v,
                       struct error *e)
{
    switch (row->kind) {
    case OPTION_FLAG:
        return parse_flag(text, &v->on, e);
    case OPTION_INT:
        return str_parse_int(text, (int64_t)row->min, (int64_t)row->max, &v->integer, e);
    case OPTION_REAL:
        return str_parse_double(text, row->min, row->max, &v->real, e);
    case OPTION_SIZE:
        return parse_bounded_size(row, text, &v->bytes, e);
    case OPTION_DURATION:
        return parse_bounded_duration(row, text, &v->integer, e);
    case OPTION_WHEN:
        return when_parse(text, clock_wall_us(), &v->integer, e);
    case OPTION_WORD:
        return check_word(row->argument, text, e);
    case OPTION_TEXT:
    case OPTION_LIST:
        return 0;
    case OPTION_PATH:
    case OPTION_OUTPUT:
        break;
    }
    if (!*text)
        return error_set(e, ERROR_USAGE, "an empty path");
    return row->kind == OPTION_OUTPUT ? check_output(text, e) : 0;
}

/* Takes the value unless a stronger origin has spoken. */
static int value_set(struct options *o, enum option_id id, const char *text,
                     enum option_origin origin, struct error *e)
{
    struct option_value v = {.text = text, .origin = origin};
    int rc = value_parse(&rows[id], text, &v, e);
    if (rc == 0 && origin >= o->value[id].origin)
        o->value[id] = v;
    return rc;
}

static int item_add(struct options *o, enum option_id id, const char *text, struct error *e)
{
    struct option_item *more = mem_regrow(o->item, o->n_items + 1, sizeof(*more));
    if (!more)
        return error_set(e, ERROR_NOMEM, "out of memory for the command line");
    o->item = more;
    o->item[o->n_items++] = (struct option_item){id, text};
    return 0;
}

/* ---- Defaults and environment ----------------------------------------------------------------- */

const char *options_environment(const struct options *o, const char *name)
{
    size_t n = strlen(name);
    for (char **v = o->environment; v && *v; v++) {
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
            return (*v)[n + 1] ? *v + n + 1 : NULL;
    }
    return NULL;
}

const char *option_variable(enum option_id id, char out[48])
{
    snprintf(out, 48, "NOCTURNE_%s", rows[id].flag);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    return out;
}

int options_init(struct options *o, char **environment, struct error *e)
{
    memset(o, 0, sizeof(*o));
    o->environment = environment;
    buf_init(&o->file, 1u << 20);
    buf_init(&o->file_path_text, 4096);
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        if (rows[id].value) {
            int rc = value_set(o, (enum option_id)id, rows[id].value, ORIGIN_DEFAULT, e);
            if (rc)
                return error_wrap(e, "default of --%s", rows[id].flag);
        }
        char name[48];
        const char *text = options_environment(o, option_variable((enum option_id)id, name));
        if (rows[id].where != OPTION_SETTING || !text)
            continue;
        struct error why = {0};
        if (value_set(o, (enum option_id)id, text, ORIGIN_ENVIRONMENT, &why))
            return error_set(e, ERROR_CONFIG, "environment variable %s: %s", name, why.text);
    }
    return 0;
}

void options_release(struct options *o)
{
    mem_free(o->item);
    buf_release(&o->file);
    buf_release(&o->file_path_text);
    memset(o, 0, sizeof(*o));
}

/* ---- The command line ------------------------------------------------------------------------- */

static size_t distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);
    if (n >= ARRAY_LEN(row))
        return n;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = corner + (a[i] != b[j]);
            corner = row[j + 1];
            row[j + 1] = MIN_OF(change, MIN_OF(row[j], corner) + 1);
        }
    }
    return row[n];
}

const char *options_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t best_distance = MAX_OF((strlen(word) + 2) / 3, (size_t)1) + 1;
    for (size_t i = 0; i < n; i++) {
        bool begins = strlen(word) >= 3 && strncmp(names[i], word, strlen(word)) == 0;
        size_t d = begins ? 1 : distance(word, names[i]);
        if (d < best_distance) {
            best_distance = d;
            best = names[i];
        }
    }
    return best;
}

static int unknown_option(const enum option_id *allowed, const char *word, size_t word_len,
                          struct error *e)
{
    const char *names[OPTION_COUNT];
    size_t n = 0;
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)word_len, word);
    for (const enum option_id *id = allowed; *id; id++)
        names[n++] = rows[*id].flag;
    const char *near = options_nearest(name, names, n);
    if (near)
        return error_set(e, ERROR_USAGE, "unknown option '--%s'; did you mean --%s?", name, near);
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        if (strcmp(rows[id].flag, name) == 0)
            return error_set(e, ERROR_USAGE, "this command has no option '--%s'", name);
    }
    return error_set(e, ERROR_USAGE, "unknown option '--%s'", name);
}

static int value_from_flag(struct options *o, enum option_id id, const char *text, struct error *e)
{
    struct error why = {0};
    int rc = rows[id].kind == OPTION_LIST ? item_add(o, id, text, &why)
                                          : value_set(o, id, text, ORIGIN_FLAG, &why);
    if (rc)
        return error_set(e, (enum error_code)why.code == ERROR_NOMEM ? ERROR_NOMEM : ERROR_USAGE,
                         "--%s: %s", rows[id].flag, why.text);
    if (rows[id].kind == OPTION_LIST)
        o->value[id] = (struct option_value){.text = text, .origin = ORIGIN_FLAG};
    return 0;
}

/* What one word of the command line was made of. */
struct word {
    enum option_id id;
    const char *value; /* attached to it, or NULL */
};

static int read_word(const enum option_id *allowed, const char *text, struct word *ret,
                     struct error *e)
{
    *ret = (struct word){0};
    if (text[1] == '-') {
        size_t n = strcspn(text + 2, "=");
        for (const enum option_id *id = allowed; *id; id++) {
            if (strlen(rows[*id].flag) == n && strncmp(rows[*id].flag, text + 2, n) == 0)
                ret->id = *id;
        }
        ret->value = text[2 + n] ? text + 3 + n : NULL;
        return ret->id ? 0 : unknown_option(allowed, text + 2, n, e);
    }
    for (const enum option_id *id = allowed; *id; id++) {
        if (rows[*id].letter == text[1])
            ret->id = *id;
    }
    if (!ret->id)
        return error_set(e, ERROR_USAGE, "unknown option '-%c'", text[1]);
    ret->value = text[2] ? text + 2 : NULL;
    if (ret->value && rows[ret->id].kind == OPTION_FLAG)
        return error_set(e, ERROR_USAGE, "option '-%c' takes no value, but '%s' follows it",
                         text[1], ret->value);
    return 0;
}

int options_parse(struct options *o, const enum option_id *allowed, int argc, char **argv,
                  int *ret_n, struct error *e)
{
    int n = 0;
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        if (only_arguments || argv[i][0] != '-' || !argv[i][1]) {
            argv[n++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            only_arguments = true;
            continue;
        }
        struct word w;
        int rc = read_word(allowed, argv[i], &w, e);
        if (rc)
            return rc;
        if (!w.value && rows[w.id].kind == OPTION_FLAG)
            w.value = "true";
        if (!w.value && i + 1 == argc)
            return error_set(e, ERROR_USAGE, "option '%s' needs a value: %s", argv[i],
                             rows[w.id].argument);
        if (!w.value)
            w.value = argv[++i];
        rc = value_from_flag(o, w.id, w.value, e);
        if (rc)
            return rc;
    }
    *ret_n = n;
    return 0;
}

/* ---- The configuration file ------------------------------------------------------------------- */

static int find_file(struct options *o, struct error *e)
{
    const char *given = option_text(o, OPTION_CONFIG);
    const char *xdg = options_environment(o, "XDG_CONFIG_HOME");
    const char *home = options_environment(o, "HOME");
    if (given)
        buf_append_c(&o->file_path_text, given);
    else if (xdg)
        buf_printf(&o->file_path_text, "%s/nocturne/config", xdg);
    else if (home)
        buf_printf(&o->file_path_text, "%s/.config/nocturne/config", home);
    o->file_path = o->file_path_text.len ? o->file_path_text.ptr : NULL;
    return buf_check(&o->file_path_text, "path of the configuration file", e);
}

static enum option_id setting_find(const char *key)
{
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        if (rows[id].where == OPTION_SETTING && strcmp(rows[id].flag, key) == 0)
            return (enum option_id)id;
    }
    return OPTION_NONE;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n && isspace((unsigned char)text[n - 1]))
        text[--n] = '\0';
    return text;
}

static int unknown_key(const char *path, unsigned line, const char *key, struct error *e)
{
    const char *names[OPTION_COUNT];
    size_t n = 0;
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        if (rows[id].where == OPTION_SETTING)
            names[n++] = rows[id].flag;
    }
    const char *near = options_nearest(key, names, n);
    return error_set(e, ERROR_CONFIG, "%s:%u: unknown key '%s'%s%s%s", path, line, key,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int read_line(struct options *o, char *text, unsigned line, struct error *e)
{
    char *key = trim(text);
    if (!*key || *key == '#')
        return 0;
    char *value = strchr(key, '=');
    if (!value)
        return error_set(e, ERROR_CONFIG, "%s:%u: '%s' is not KEY = VALUE", o->file_path, line,
                         key);
    *value++ = '\0';
    key = trim(key);
    enum option_id id = setting_find(key);
    if (id == OPTION_NONE)
        return unknown_key(o->file_path, line, key, e);
    if (id == OPTION_CONFIG)
        return error_set(e, ERROR_CONFIG, "%s:%u: '%s' cannot stand in the file that it names",
                         o->file_path, line, key);
    struct error why = {0};
    if (value_set(o, id, trim(value), ORIGIN_FILE, &why))
        return error_set(e, ERROR_CONFIG, "%s:%u: %s: %s", o->file_path, line, key, why.text);
    if (o->value[id].origin == ORIGIN_FILE)
        o->value[id].line = line;
    return 0;
}

int options_read_file(struct options *o, struct error *e)
{
    int rc = find_file(o, e);
    if (rc || !o->file_path)
        return rc;
    struct error why = {0};
    rc = file_read_all(o->file_path, 1u << 20, &o->file, &why);
    if (rc == -ERROR_NOTFOUND && !option_given(o, OPTION_CONFIG))
        return 0;
    if (rc)
        return error_set(e, ERROR_CONFIG, "%s", why.text);
    o->file_read = true;
    unsigned line = 0;
    for (char *at = o->file.ptr; at && *at && rc == 0;) {
        char *end = strchr(at, '\n');
        if (end)
            *end++ = '\0';
        rc = read_line(o, at, ++line, e);
        at = end;
    }
    return rc;
}

/* ---- Getters ---------------------------------------------------------------------------------- */

const char *option_text(const struct options *o, enum option_id id)
{
    return o->value[id].text;
}

bool option_on(const struct options *o, enum option_id id)
{
    return o->value[id].on;
}

bool option_given(const struct options *o, enum option_id id)
{
    return o->value[id].origin != ORIGIN_DEFAULT;
}

int64_t option_int(const struct options *o, enum option_id id)
{
    return o->value[id].integer;
}

uint64_t option_size(const struct options *o, enum option_id id)
{
    return o->value[id].bytes;
}

double option_real(const struct options *o, enum option_id id)
{
    return o->value[id].real;
}

int64_t option_us(const struct options *o, enum option_id id)
{
    return o->value[id].integer;
}

const char *option_item(const struct options *o, enum option_id id, size_t i)
{
    for (size_t k = 0; k < o->n_items; k++) {
        if (o->item[k].id == id && i-- == 0)
            return o->item[k].text;
    }
    return NULL;
}
