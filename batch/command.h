/*
 * A command of the program: a row of commands.def and a const table in cmd_<name>.c.
 *
 * main parses the options (before anything else happens), reads the configuration, calls run() and
 * turns what it returns into the exit status. A command prints data on c->out and messages on stderr
 * (message()), keeps everything in its context or on its stack, and never calls exit.
 *
 * run() returns an exit status (0 all well, 1 some requests failed, ...) or a negative error code:
 * then main prints the sentence of `e` and the exit status is that of the error's row.
 */
#ifndef BATCH_COMMAND_H
#define BATCH_COMMAND_H

#include <stdbool.h>

#include "base/error.h"
#include "batch/options.h"
#include "batch/output.h"

struct command_context {
    const struct command *command;
    const struct options *options;
    int n_args;         /* what is left of the command line */
    char **arg;         /* [n_args] */
    struct output *out; /* stdout */
};

struct command {
    const char *name;
    const char *arguments;        /* "MODEL [TEXT]", for help; "" for none */
    int min_args, max_args;       /* max -1: any number */
    const enum option_id *option; /* ends with OPTION_NONE; those of every command need not stand */
    bool computes;                /* uses many threads: main prepares the environment for them */
    const char *details;          /* paragraphs for help */
    const char *examples;         /* lines for help, without indent */
    int (*run)(struct command_context *c, struct error *e);
};

#define COMMAND(name, summary) extern const struct command command_##name;
#include "batch/commands.def"
#undef COMMAND

/* The row of commands.def with that name, or NULL. */
const struct command *command_find(const char *name);
/* The i-th row, or NULL beyond the last; its summary. */
const struct command *command_at(size_t i);
const char *command_summary(size_t i);
/* Options that every command takes; ends with OPTION_NONE. */
const enum option_id *command_common_options(void);

/* Help for one command, and for the program. */
void help_print(struct output *out, const struct command *c);
void help_print_all(struct output *out);
/* "; did you mean 'status'?" or "; try 'nocturne help'" */
const char *command_hint(const char *name, char out[80]);

#endif
