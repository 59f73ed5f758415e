#include <stdio.h>
#include <string.h>

#include "batch/command.h"

static const char *origin_text(const struct options *o, enum option_id id, char *out, size_t size)
{
    const struct option_value *v = &o->value[id];
    char name[48];
    switch (v->origin) {
    case ORIGIN_DEFAULT:
        snprintf(out, size, "default");
        break;
    case ORIGIN_FILE:
        snprintf(out, size, "%s:%u", o->file_path, v->line);
        break;
    case ORIGIN_ENVIRONMENT:
        snprintf(out, size, "environment %s", option_variable(id, name));
        break;
    case ORIGIN_FLAG:
        snprintf(out, size, "flag");
        break;
    }
    return out;
}

static int print_json(struct command_context *c, struct error *e)
{
    cJSON *all = cJSON_CreateObject();
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        const struct option_row *row = option_row((enum option_id)id);
        if (row->where != OPTION_SETTING)
            continue;
        char origin[4200];
        const char *text = option_text(c->options, (enum option_id)id);
        cJSON *one = cJSON_AddObjectToObject(all, row->flag);
        if (text)
            cJSON_AddStringToObject(one, "value", text);
        else
            cJSON_AddNullToObject(one, "value");
        cJSON_AddStringToObject(
            one, "origin", origin_text(c->options, (enum option_id)id, origin, sizeof(origin)));
    }
    return output_json(c->out, all, true, e);
}

/* A misspelt variable changes nothing and is easily overlooked. */
static void name_strangers(const struct options *o)
{
    for (char **v = o->environment; v && *v; v++) {
        bool known = strncmp(*v, "NOCTURNE_", 9) != 0;
        for (int id = OPTION_NONE + 1; id < OPTION_COUNT && !known; id++) {
            char name[48];
            size_t n = strlen(option_variable((enum option_id)id, name));
            known = option_row((enum option_id)id)->where == OPTION_SETTING &&
                    strncmp(*v, name, n) == 0 && (*v)[n] == '=';
        }
        if (!known)
            message("environment variable %.*s is no setting and has no effect",
                    (int)strcspn(*v, "="), *v);
    }
}

static int run(struct command_context *c, struct error *e)
{
    name_strangers(c->options);
    if (option_on(c->options, OPTION_JSON))
        return print_json(c, e);
    static const char *const titles[] = {"SETTING", "VALUE", "FROM", NULL};
    struct table t;
    table_init(&t, c->out, titles);
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        const struct option_row *row = option_row((enum option_id)id);
        if (row->where != OPTION_SETTING)
            continue;
        char origin[4200];
        const char *text = option_text(c->options, (enum option_id)id);
        table_cell(&t, "%s", row->flag);
        table_cell(&t, "%s", text ? text : "-");
        table_cell(&t, "%s", origin_text(c->options, (enum option_id)id, origin, sizeof(origin)));
    }
    return table_end(&t, e);
}

static const enum option_id options[] = {OPTION_JSON, OPTION_NONE};

const struct command command_config = {
    .name = "config",
    .arguments = "",
    .option = options,
    .details =
        "A setting is taken from the command line, else from the environment (NOCTURNE_ and its "
        "name in\ncapitals, '-' as '_'), else from the configuration file "
        "($XDG_CONFIG_HOME/nocturne/config, lines\nof 'name = value', '#' for comments), else it "
        "has its default. A '-' means that the program\ndecides when it is needed.",
    .examples = "nocturne config\n"
                "echo 'memory = 24G' >> ~/.config/nocturne/config",
    .run = run,
};
