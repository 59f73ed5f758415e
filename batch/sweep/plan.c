#include "batch/sweep/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ledger.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "batch/host/machine.h"
#include "batch/model_options.h"
#include "batch/sweep/run.h"
#include "batch/worker/worker.h"

#define AUTO_STEPS 5
#define PROMPT_MAX_BYTES (16u << 20)
#define IDS_MAX_BYTES (64u << 20)
#define MIB (UINT64_C(1) << 20)

/* What is asked when nobody says what. */
static const char passage[] =
    "The harbour was quiet after ten. A last ferry had gone, the cranes stood still, and only the "
    "clerk in the customs house went on reading: eleven ledgers, each with the cargo of a year, "
    "each "
    "in another hand. He had until morning to find which barrels of whale oil had been counted "
    "twice, "
    "and he did not hurry. He copied a name, compared two dates, drew a line under a sum that was "
    "wrong by forty, and turned the page. Outside the tide came in without a sound. By four he "
    "knew "
    "three things: who had written the false entries, when he had begun, and why the numbers of "
    "every "
    "March agreed so well. What he wrote to the director that night began with the words: ";

/* ---- Budgets ---------------------------------------------------------------------------------- */

static int add_budget(struct sweep_plan *p, uint64_t bytes, struct error *e)
{
    size_t at = 0;
    while (at < p->n_budgets && p->budget[at] < bytes)
        at++;
    if (at < p->n_budgets && p->budget[at] == bytes)
        return 0;
    if (p->n_budgets == SWEEP_BUDGETS_MAX)
        return error_set(e, ERROR_USAGE, "--budgets: more than %d", SWEEP_BUDGETS_MAX);
    memmove(p->budget + at + 1, p->budget + at, (p->n_budgets - at) * sizeof(*p->budget));
    p->budget[at] = bytes;
    p->n_budgets++;
    return 0;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB * MIB;
}

static int add_steps(struct sweep_plan *p, uint64_t most, struct error *e)
{
    const uint64_t low = round_up(p->smallest_bytes);
    uint64_t high = round_up(p->whole_bytes);
    int rc = 0;
    if (most > 0 && most < high)
        high = most / MIB * MIB;
    if (high < low)
        high = low; /* the worker will say why it refuses */
    for (uint64_t i = 0; rc == 0 && i < AUTO_STEPS; i++)
        rc = add_budget(p, round_up(low + (high - low) / (AUTO_STEPS - 1) * i), e);
    return rc;
}

static int add_word(struct sweep_plan *p, char *word, struct error *e)
{
    const size_t n = strlen(word);
    uint64_t bytes = 0;
    double percent = 0;
    int rc;
    if (n > 0 && word[n - 1] == '%') {
        word[n - 1] = '\0';
        rc = str_parse_double(word, 0.001, 1000, &percent, e);
        bytes = round_up((uint64_t)((double)p->whole_bytes * percent / 100));
    } else {
        rc = str_parse_size(word, &bytes, e);
    }
    if (rc == 0 && bytes == 0)
        rc = error_set(e, ERROR_USAGE, "no budget is 0");
    return rc ? rc : add_budget(p, bytes, e);
}

int sweep_budgets(struct sweep_plan *p, const char *list, uint64_t most, struct error *e)
{
    p->n_budgets = 0;
    if (strcmp(list, "auto") == 0)
        return add_steps(p, most, e);
    int rc = 0;
    while (rc == 0 && list) {
        char word[32];
        if (!str_take_word(&list, word, sizeof(word)))
            rc = error_set(e, ERROR_USAGE, "'%s...' is no size", word);
        else
            rc = add_word(p, word, e);
    }
    if (rc < 0 && e)
        e->code = ERROR_USAGE;
    return rc ? error_wrap(e, "--budgets") : 0;
}

uint32_t *sweep_order(const struct sweep_plan *p, size_t *ret_n)
{
    const size_t n = p->n_budgets * p->repeat;
    uint32_t *order = mem_array(n, sizeof(*order));
    for (uint32_t i = 0; order && i < n; i++) {
        const uint32_t at = (uint32_t)(rng_u64(p->seed, i) % (i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    *ret_n = order ? n : 0;
    return order;
}

/* ---- The request ------------------------------------------------------------------------------ */

static int count_tokens(const struct engine *en, struct str text, uint32_t *ret, struct error *e)
{
    struct buf ids;
    buf_init(&ids, IDS_MAX_BYTES);
    int rc = engine_tokenize(en, text, false, true, &ids, e);
    *ret = (uint32_t)(ids.len / sizeof(int32_t));
    buf_release(&ids);
    return rc;
}

/* Bytes of the first n words. */
static size_t words(struct str text, size_t n)
{
    size_t at = 0;
    for (; n > 0 && at < text.len; n--) {
        while (at < text.len && text.ptr[at] == ' ')
            at++;
        while (at < text.len && text.ptr[at] != ' ')
            at++;
    }
    return at;
}

/* As many words of the passage, over and over, as are at most so many tokens; a word is at least one. */
static int compose(struct sweep_plan *p, const struct engine *en, uint32_t wanted, struct error *e)
{
    size_t few = 1, many = (size_t)wanted + 1;
    while (words(buf_str(&p->prompt), many) == p->prompt.len) {
        if (buf_append_c(&p->prompt, passage) != 0)
            return buf_check(&p->prompt, "--prompt-tokens", e);
    }
    while (many - few > 1) {
        const size_t middle = few + (many - few) / 2;
        const struct str text = str_slice(p->prompt.ptr, words(buf_str(&p->prompt), middle));
        uint32_t n = 0;
        int rc = count_tokens(en, text, &n, e);
        if (rc)
            return rc;
        if (n <= wanted)
            few = middle;
        else
            many = middle;
    }
    p->prompt.len = words(buf_str(&p->prompt), few);
    p->prompt.ptr[p->prompt.len] = '\0';
    return 0;
}

static int make_prompt(struct sweep_plan *p, const struct engine *en, const struct options *o,
                       struct error *e)
{
    const char *given = option_text(o, OPTION_SWEEP_PROMPT);
    if (given && option_given(o, OPTION_PROMPT_TOKENS))
        return error_set(e, ERROR_USAGE, "-p is the prompt; --prompt-tokens has no say then");
    int rc = given ? buf_append_c(&p->prompt, given)
                   : compose(p, en, (uint32_t)option_int(o, OPTION_PROMPT_TOKENS), e);
    if (rc == 0)
        rc = buf_check(&p->prompt, "-p", e);
    if (rc == 0)
        rc = count_tokens(en, buf_str(&p->prompt), &p->prompt_tokens, e);
    return rc;
}

/* Everything that must be the same for runs to be compared. */
static void make_key(struct sweep_plan *p, const struct options *o)
{
    struct sha256 hash;
    uint8_t digest[32];
    char hex[65];
    sha256_init(&hash);
    sha256_add_field(&hash, p->fingerprint, strlen(p->fingerprint));
    sha256_add_field(&hash, p->prompt.ptr, p->prompt.len);
    sha256_add_field(&hash, &p->tokens, sizeof(p->tokens));
    for (const enum option_id *id = sweep_engine_options(); *id; id++) {
        const char *text = option_row(*id)->kind == OPTION_FLAG ? option_on(o, *id) ? "on" : ""
                                                                : option_text(o, *id);
        sha256_add_field(&hash, text ? text : "", text ? strlen(text) : 0);
    }
    sha256_end(&hash, digest);
    sha256_hex(digest, hex);
    snprintf(p->key, sizeof(p->key), "%.16s", hex);
}

/* ---- All of it -------------------------------------------------------------------------------- */

static int check_context(const struct sweep_plan *p, const struct engine_info *info,
                         struct error *e)
{
    if ((uint64_t)p->prompt_tokens + p->tokens <= info->ctx)
        return 0;
    return error_set(e, ERROR_CONTEXT, "%u tokens of prompt and %u of answer; the context is %u",
                     p->prompt_tokens, p->tokens, info->ctx);
}

static int take_model(struct sweep_plan *p, const struct engine *en, const struct options *o,
                      struct error *e)
{
    struct engine_info info;
    struct engine_plan plan;
    struct machine_budget machine = {0};
    const char *slash;
    engine_describe(en, &info);
    engine_plan(en, &plan);
    int rc = engine_plan_check(en, e);
    if (rc)
        return rc;
    slash = strrchr(info.path, '/');
    snprintf(p->model, sizeof(p->model), "%s", slash ? slash + 1 : info.path);
    snprintf(p->fingerprint, sizeof(p->fingerprint), "%s", info.fingerprint);
    p->smallest_bytes = plan.smallest_bytes;
    p->whole_bytes = plan.total_bytes;
    (void)machine_budget("", &machine, NULL);
    rc = sweep_budgets(p, option_text(o, OPTION_BUDGETS), machine.bytes, e);
    if (rc == 0)
        rc = make_prompt(p, en, o, e);
    return rc ? rc : check_context(p, &info, e);
}

int sweep_plan_make(struct sweep_plan *p, const struct options *o, struct error *e)
{
    struct engine_options eo;
    struct engine *en = NULL;
    *p = (struct sweep_plan){.tokens = (uint32_t)option_int(o, OPTION_SWEEP_TOKENS),
                             .repeat = (uint32_t)option_int(o, OPTION_REPEAT),
                             .seed = (uint64_t)option_int(o, OPTION_ORDER_SEED)};
    buf_init(&p->prompt, PROMPT_MAX_BYTES);
    int rc = model_options_read(&eo, o, NULL, e);
    if (rc == 0)
        rc = ledger_new(&eo.ledger, LEDGER_NO_LIMIT, e);
    if (rc)
        return rc;
    eo.headers_only = true;
    eo.cache_bytes = WORKER_CACHE_BYTES;
    rc = engine_open(&en, &eo, e);
    if (rc == 0)
        rc = take_model(p, en, o, e);
    if (rc == 0)
        make_key(p, o);
    engine_close(en);
    ledger_free(eo.ledger);
    return rc;
}

void sweep_plan_release(struct sweep_plan *p)
{
    buf_release(&p->prompt);
}
