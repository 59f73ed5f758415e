#include "batch/configuration.h"

#include <string.h>

/* Commands may name passwords and addresses; a file with a token is named, its token never is. */
static bool may_be_secret(const struct option_row *row)
{
    return strncmp(row->flag, "on-", 3) == 0 || strcmp(row->flag, "hook") == 0;
}

static cJSON *items(const struct options *o, enum option_id id)
{
    cJSON *array = cJSON_CreateArray();
    const char *text = option_item(o, id, 0);
    if (!text)
        text = option_text(o, id);
    for (size_t i = 1; text; i++) {
        cJSON_AddItemToArray(array, cJSON_CreateString(text));
        text = option_item(o, id, i);
    }
    return array;
}

cJSON *configuration_json(const struct options *o, const enum option_id *list)
{
    cJSON *all = cJSON_CreateObject();
    for (; *list != OPTION_NONE; list++) {
        const struct option_row *row = option_row(*list);
        const char *text = option_text(o, *list);
        if (may_be_secret(row))
            cJSON_AddBoolToObject(all, row->flag, option_given(o, *list));
        else if (row->kind == OPTION_FLAG)
            cJSON_AddBoolToObject(all, row->flag, option_on(o, *list));
        else if (row->kind == OPTION_LIST)
            cJSON_AddItemToObject(all, row->flag, items(o, *list));
        else if (text)
            cJSON_AddStringToObject(all, row->flag, text);
    }
    return all;
}
