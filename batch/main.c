#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "batch/command.h"
#include "batch/version.h"
#include "jobs/json.h"

#define EXIT_USAGE 2
/* Of a program that a closed pipe ends: 128 + SIGPIPE. */
#define EXIT_PIPE 141

extern char **environ;

/*
 * libgomp reads how long idle threads spin before main runs, so the only way to tell it is to start
 * again. 1,000 turns are at most 50 us: nothing spins while the disk is awaited. A value that is
 * there already, ours or the user's, is kept.
 */
static void restart_without_spinning(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0)
        execv("/proc/self/exe", argv);
    /* Without /proc the threads spin a little longer; nothing else changes. */
}

/* Started as /proc/self/exe it would be an "exe" to ps, and to whoever reads which process was killed. */
static void name_process(void)
{
    prctl(PR_SET_NAME, program_invocation_short_name);
}

static int set_log_level(const struct options *o, struct error *e)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *text = option_text(o, OPTION_LOG);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            log_set_level((enum log_level)i);
            log_set_journal(getenv("JOURNAL_STREAM") != NULL);
            return 0;
        }
    }
    return error_set(e, ERROR_USAGE, "--log: '%s' is not error, warn, info or debug", text);
}

static int check_arguments(const struct command *command, int n, char **arg, struct error *e)
{
    if (n < command->min_args)
        return error_set(e, ERROR_USAGE, "needs %s", command->arguments);
    if (command->max_args >= 0 && n > command->max_args)
        return error_set(e, ERROR_USAGE, "'%s' is one argument too many", arg[command->max_args]);
    return 0;
}

static int parse(const struct command *command, struct options *o, int argc, char **argv,
                 int *ret_n, struct error *e)
{
    enum option_id allowed[OPTION_COUNT];
    size_t n = 0;
    for (const enum option_id *id = command_common_options(); *id; id++)
        allowed[n++] = *id;
    for (const enum option_id *id = command->option; id && *id; id++)
        allowed[n++] = *id;
    allowed[n] = OPTION_NONE;
    int rc = options_parse(o, allowed, argc, argv, ret_n, e);
    if (rc == 0)
        rc = check_arguments(command, *ret_n, argv, e);
    if (rc == 0)
        rc = options_read_file(o, e);
    return rc ? rc : set_log_level(o, e);
}

static int failed(const struct command *command, const struct error *e)
{
    if (e->sys == EPIPE)
        return EXIT_PIPE;
    message("%s: %s", command->name, e->text);
    if (e->code == ERROR_USAGE && command != &command_help)
        message("try 'nocturne help %s'", command->name);
    return error_describe(e->code)->exit_status;
}

static int run_command(const struct command *command, int argc, char **argv, struct output *out)
{
    struct error e = {0};
    struct options o;
    int n = 0;
    int status = options_init(&o, environ, &e);
    if (status == 0)
        status = parse(command, &o, argc, argv, &n, &e);
    if (status == 0) {
        struct command_context c = {
            .command = command, .options = &o, .n_args = n, .arg = argv, .out = out};
        status = command->run(&c, &e);
    }
    int flushed = output_flush(out, status < 0 ? NULL : &e);
    if (status >= 0 && flushed < 0)
        status = flushed;
    if (status < 0)
        status = failed(command, &e);
    options_release(&o);
    return status;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

static int dispatch(int argc, char **argv, struct output *out)
{
    if (argc < 2) {
        message("no command; try 'nocturne help'");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        output_put(out, "nocturne %s\n", NOCTURNE_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_print_all(out);
        return 0;
    }
    const struct command *command = command_find(argv[1]);
    if (!command) {
        char hint[80];
        message("no command '%s'%s", argv[1], command_hint(argv[1], hint));
        return EXIT_USAGE;
    }
    if (wants_help(argc - 2, argv + 2)) {
        help_print(out, command);
        return 0;
    }
    if (command->computes)
        restart_without_spinning(argv);
    name_process();
    return run_command(command, argc - 2, argv + 2, out);
}

int main(int argc, char **argv)
{
    /* Writes to a reader that has gone fail with EPIPE and are handled where they happen. */
    signal(SIGPIPE, SIG_IGN);
    /* Whoever started us may have had it ignored: then no child could be waited for. */
    signal(SIGCHLD, SIG_DFL);
    json_init();
    const char *no_color = getenv("NO_COLOR");
    struct output out;
    output_init(&out, STDOUT_FILENO, no_color && *no_color);
    int status = dispatch(argc, argv, &out);
    struct error e = {0};
    if (output_flush(&out, &e) < 0 && status == 0) {
        if (e.sys != EPIPE)
            message("%s", e.text);
        status = e.sys == EPIPE ? EXIT_PIPE : error_describe(e.code)->exit_status;
    }
    output_release(&out);
    return status;
}
