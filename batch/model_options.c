#include "batch/model_options.h"

#include <string.h>

#include "batch/host/machine.h"
#include "batch/output.h"

int model_path_check(const char *path, struct error *e)
{
    if (path)
        return 0;
    return error_set(e, ERROR_USAGE,
                     "which model? give -m FILE, NOCTURNE_MODEL=FILE in the environment or "
                     "'model = FILE' in the configuration file");
}

int model_options_read(struct engine_options *ret, const struct options *o, const char *path,
                       struct error *e)
{
    const char *model = path ? path : option_text(o, OPTION_MODEL);
    int rc = model_path_check(model, e);
    if (rc)
        return rc;
    *ret = (struct engine_options){
        .model_path = model,
        .threads = (int)option_int(o, OPTION_THREADS),
        .ctx = (uint32_t)option_int(o, OPTION_CTX),
        .slots = (uint32_t)option_int(o, OPTION_SLOTS),
        .chunk = (uint32_t)option_int(o, OPTION_CHUNK),
        .isa = option_text(o, OPTION_ISA),
        .io = option_text(o, OPTION_IO),
        .lookahead = strcmp(option_text(o, OPTION_LOOKAHEAD), "on") == 0,
        .expert_policy = option_text(o, OPTION_EXPERT_POLICY),
        .chat_format = option_text(o, OPTION_CHAT_FORMAT),
        .exact = option_on(o, OPTION_EXACT),
    };
    return 0;
}

int model_ledger_new(struct ledger **ret, const struct options *o, struct error *e)
{
    struct machine_budget budget;
    char warning[MACHINE_WARNING_BYTES];
    int rc = machine_choose_budget("", option_size(o, OPTION_MEMORY), &budget, warning, e);
    if (rc < 0)
        return rc;
    if (*warning)
        message("%s", warning);
    return ledger_new(ret, budget.bytes, e);
}
