#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "batch/command.h"

static const struct {
    const struct command *command;
    const char *summary;
} commands[] = {
#define COMMAND(name, text) {&command_##name, text},
#include "batch/commands.def"
#undef COMMAND
};

const struct command *command_at(size_t i)
{
    return i < ARRAY_LEN(commands) ? commands[i].command : NULL;
}

const char *command_summary(size_t i)
{
    return commands[i].summary;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].command->name, name) == 0)
            return commands[i].command;
    }
    return NULL;
}

const char *command_hint(const char *name, char out[80])
{
    const char *names[ARRAY_LEN(commands)];
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        names[i] = commands[i].command->name;
    const char *near = options_nearest(name, names, ARRAY_LEN(commands));
    snprintf(out, 80, near ? "; did you mean '%s'?" : "; try 'nocturne help'", near);
    return out;
}

const enum option_id *command_common_options(void)
{
    static const enum option_id common[] = {OPTION_DB,           OPTION_CONFIG,  OPTION_LOG,
                                            OPTION_BUSY_TIMEOUT, OPTION_RESERVE, OPTION_NONE};
    return common;
}
