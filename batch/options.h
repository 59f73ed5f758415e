/*
 * Options and settings: one table (options.def), four places a value may come from.
 *
 * Owns the text of the configuration file; every other string belongs to argv or the environment,
 * which outlive the program's work.
 *
 * Stays true: flag > environment (NOCTURNE_*) > configuration file > default. Each value was checked
 * against its row's kind and bounds wherever it came from, so the getters cannot fail. A name that is
 * no row, or no option of this command, is an error with a hint; nothing is accepted and ignored.
 * One thread.
 */
#ifndef BATCH_OPTIONS_H
#define BATCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum option_id {
    OPTION_NONE = 0, /* ends the list of a command */
#define OPTION(id, flag, letter, kind, min, max, arg, value, where, help) OPTION_##id,
#include "batch/options.def"
#undef OPTION
    OPTION_COUNT
};

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_WORD,
    OPTION_PATH,
    OPTION_OUTPUT, /* a path that is written to */
    OPTION_INT,
    OPTION_REAL,
    OPTION_SIZE,
    OPTION_DURATION,
    OPTION_WHEN,
    OPTION_LIST
};
enum option_where { OPTION_SETTING, OPTION_ORDER };

struct option_row {
    const char *flag;
    char letter;
    enum option_kind kind;
    double min, max;
    const char *argument; /* what help calls the value; NULL for a FLAG */
    const char *value;    /* the default, or NULL */
    enum option_where where;
    const char *help;
};
const struct option_row *option_row(enum option_id id);

enum option_origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };

struct option_value {
    const char *text; /* as written; NULL: no value */
    enum option_origin origin;
    unsigned line;   /* of the configuration file */
    bool on;         /* FLAG */
    int64_t integer; /* INT; DURATION in microseconds; WHEN as wall time in microseconds */
    uint64_t bytes;  /* SIZE */
    double real;     /* REAL */
};

struct options {
    char **environment;
    struct option_value value[OPTION_COUNT];
    struct option_item *item; /* [n_items] what LIST options were given, in order */
    size_t n_items;
    struct buf file;       /* the configuration file, cut into strings */
    const char *file_path; /* where it is or would be; NULL: nowhere */
    bool file_read;
    struct buf file_path_text;
};

/* Defaults and environment; `environment` is main's environ. */
int options_init(struct options *o, char **environment, struct error *e);
void options_release(struct options *o);
/*
 * Takes the options of a command (`allowed` ends with OPTION_NONE) out of argv[0..argc) and moves
 * what is left, the arguments, to the front: *ret_n of them. ERROR_USAGE with a hint.
 */
int options_parse(struct options *o, const enum option_id *allowed, int argc, char **argv,
                  int *ret_n, struct error *e);
/* Reads the configuration file for what neither flag nor environment has said. */
int options_read_file(struct options *o, struct error *e);

const char *option_text(const struct options *o, enum option_id id); /* or NULL */
bool option_on(const struct options *o, enum option_id id);
/* Whether anything but the default is there. */
bool option_given(const struct options *o, enum option_id id);
int64_t option_int(const struct options *o, enum option_id id); /* 0 without a value */
uint64_t option_size(const struct options *o, enum option_id id);
double option_real(const struct options *o, enum option_id id);
/* DURATION and WHEN, in microseconds. */
int64_t option_us(const struct options *o, enum option_id id);
/* The i-th text given for a LIST option, or NULL. */
const char *option_item(const struct options *o, enum option_id id, size_t i);

/* The value of an environment variable, or NULL when unset or empty. */
const char *options_environment(const struct options *o, const char *name);
/* "NOCTURNE_MAX_TOKENS" */
const char *option_variable(enum option_id id, char out[48]);

/* The name nearest to `word` by edit distance, or NULL when none is near. For hints. */
const char *options_nearest(const char *word, const char *const *names, size_t n);

#endif
