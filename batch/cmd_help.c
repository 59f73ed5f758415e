#include <stdio.h>
#include <string.h>

#include "batch/command.h"

#define HELP_COLUMN 28
#define HELP_WIDTH 100

/* Words of `text` from column HELP_COLUMN on, broken before HELP_WIDTH. */
static void put_wrapped(struct output *out, const char *text)
{
    size_t column = HELP_COLUMN;
    while (*text) {
        size_t n = strcspn(text, " ");
        bool first = column == HELP_COLUMN;
        if (!first && column + 1 + n > HELP_WIDTH) {
            output_put(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
            first = true;
        }
        output_put(out, "%s%.*s", first ? "" : " ", (int)n, text);
        column += n + !first;
        text += n + (text[n] == ' ');
    }
    output_put(out, "\n");
}

static void put_options(struct output *out, const char *title, const enum option_id *list)
{
    if (!list || !*list)
        return;
    output_put(out, "\n");
    output_colored(out, OUTPUT_BOLD, title);
    output_put(out, "\n");
    for (; *list; list++) {
        const struct option_row *row = option_row(*list);
        char left[64];
        char letter[8] = "    ";
        if (row->letter)
            snprintf(letter, sizeof(letter), "-%c, ", row->letter);
        int n = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, row->flag,
                         row->argument ? " " : "", row->argument ? row->argument : "");
        output_put(out, "%s%*s", left, n < HELP_COLUMN ? HELP_COLUMN - n : 0, "");
        if (n >= HELP_COLUMN)
            output_put(out, "\n%*s", HELP_COLUMN, "");
        char help[400];
        snprintf(help, sizeof(help), row->value ? "%s (default: %s)" : "%s", row->help, row->value);
        put_wrapped(out, help);
    }
}

static void put_indented(struct output *out, const char *title, const char *lines)
{
    if (!lines)
        return;
    output_put(out, "\n");
    output_colored(out, OUTPUT_BOLD, title);
    output_put(out, "\n");
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        output_put(out, "  %.*s\n", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

void help_print(struct output *out, const struct command *c)
{
    output_put(out, "usage: nocturne %s%s%s%s\n", c->name,
               c->option && *c->option ? " [OPTION]..." : "", *c->arguments ? " " : "",
               c->arguments);
    for (size_t i = 0; command_at(i); i++) {
        if (command_at(i) == c)
            output_put(out, "\n%c%s.\n", command_summary(i)[0] & ~0x20, command_summary(i) + 1);
    }
    if (c->details)
        output_put(out, "\n%s\n", c->details);
    put_options(out, "Options", c->option);
    put_options(out, "Options of every command", command_common_options());
    put_indented(out, "Examples", c->examples);
}

void help_print_all(struct output *out)
{
    output_put(out,
               "usage: nocturne COMMAND [OPTION]... [ARGUMENT]...\n\n"
               "Runs a large language model over a pile of documents, unattended: submit by day, "
               "let a\nworker drain the queue by night, export in the morning.\n\n");
    output_colored(out, OUTPUT_BOLD, "Commands");
    output_put(out, "\n");
    for (size_t i = 0; command_at(i); i++)
        output_put(out, "  %-10s  %s\n", command_at(i)->name, command_summary(i));
    put_indented(out, "Exit status",
                 "0    all well\n"
                 "1    some requests failed\n"
                 "2    usage\n"
                 "3    not found, or another worker holds the lock\n"
                 "4    refused: does not fit, too long, not supported\n"
                 "65   bad data\n"
                 "74   input or output failed\n"
                 "75   try again: busy, disk full, paused, not finished\n"
                 "78   bad configuration\n"
                 "124  wait timed out\n"
                 "130  interrupted");
    output_put(out, "\n'nocturne help COMMAND' explains a command, with examples.\n");
}

static int run(struct command_context *c, struct error *e)
{
    if (c->n_args == 0) {
        help_print_all(c->out);
        return 0;
    }
    const struct command *about = command_find(c->arg[0]);
    char hint[80];
    if (!about)
        return error_set(e, ERROR_USAGE, "no command '%s'%s", c->arg[0],
                         command_hint(c->arg[0], hint));
    help_print(c->out, about);
    return 0;
}

const struct command command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .max_args = 1,
    .examples = "nocturne help submit",
    .run = run,
};
