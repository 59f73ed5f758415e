/*
 * The settings of a command as its record keeps them: each by its option's name, as it was written.
 * What may hold a secret (commands, tokens) is only said to be there. The tree is the caller's.
 */
#ifndef BATCH_CONFIGURATION_H
#define BATCH_CONFIGURATION_H

#include <cjson/cJSON.h>

#include "batch/options.h"

/* An object for the options of the list, which ends with OPTION_NONE; without those that have no value. */
cJSON *configuration_json(const struct options *o, const enum option_id *list);

#endif
