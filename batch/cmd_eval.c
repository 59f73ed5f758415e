/* How well a model predicts a text, and how far that is from another's: the price of a format. */
#include <inttypes.h>

#include "batch/command.h"
#include "batch/evaluation.h"
#include "batch/model_options.h"
#include "batch/stop.h"

static bool interrupted(void *context)
{
    return stop_asked(context);
}

static void loading(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    report_loading(context, done_bytes, total_bytes);
}

static void print_text(struct output *out, const struct evaluation_options *o,
                       const struct evaluation_result *r)
{
    const struct figure p = divergence_perplexity(&r->sums);
    output_put(out, "perplexity      %.4f +/- %.4f\n", p.mean, p.error);
    output_put(out, "tokens          %" PRIu64 " scored in %" PRIu32 " windows of %" PRIu32 "\n",
               r->sums.n, r->n_windows, o->window);
    if (!o->against)
        return;
    const struct figure other = divergence_reference_perplexity(&r->sums);
    const struct figure ratio = divergence_ratio(&r->sums);
    const struct figure kl = divergence_kl(&r->sums);
    const struct figure same = divergence_agreement(&r->sums);
    output_put(out, "\nagainst         %s\n", o->against);
    output_put(out, "its perplexity  %.4f +/- %.4f\n", other.mean, other.error);
    output_put(out, "ln of ratio     %.6f +/- %.6f\n", ratio.mean, ratio.error);
    output_put(out, "KL divergence   %.6f +/- %.6f\n", kl.mean, kl.error);
    output_put(out, "same top token  %.2f %% +/- %.2f %%\n", 100 * same.mean, 100 * same.error);
}

static void add_figure(cJSON *o, const char *name, struct figure f)
{
    cJSON *one = cJSON_AddObjectToObject(o, name);
    cJSON_AddNumberToObject(one, "mean", f.mean);
    cJSON_AddNumberToObject(one, "error", f.error);
}

static int print_json(struct output *out, const struct evaluation_options *o,
                      const struct evaluation_result *r, struct error *e)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", o->engine.model_path);
    cJSON_AddStringToObject(json, "text", o->text_path);
    cJSON_AddBoolToObject(json, "exact", o->engine.exact);
    cJSON_AddNumberToObject(json, "context", o->window);
    cJSON_AddNumberToObject(json, "windows", r->n_windows);
    cJSON_AddNumberToObject(json, "tokens", (double)r->n_tokens);
    cJSON_AddNumberToObject(json, "scored", (double)r->sums.n);
    cJSON_AddNumberToObject(json, "seconds", r->seconds);
    add_figure(json, "perplexity", divergence_perplexity(&r->sums));
    if (o->against) {
        cJSON_AddStringToObject(json, "against", o->against);
        add_figure(json, "reference_perplexity", divergence_reference_perplexity(&r->sums));
        add_figure(json, "ln_ratio", divergence_ratio(&r->sums));
        add_figure(json, "kl_divergence", divergence_kl(&r->sums));
        add_figure(json, "top1_agreement", divergence_agreement(&r->sums));
    }
    return output_json(out, json, true, e);
}

static int read_options(struct evaluation_options *ret, struct command_context *c,
                        struct report *report, struct stop *stop, struct error *e)
{
    *ret = (struct evaluation_options){
        .text_path = c->arg[0],
        .against = option_text(c->options, OPTION_AGAINST),
        .save_logits = option_text(c->options, OPTION_SAVE_LOGITS),
        .window = (uint32_t)option_int(c->options, OPTION_WINDOW),
        .max_windows = (uint32_t)option_int(c->options, OPTION_WINDOWS),
        .report = report,
    };
    int rc = model_options_read(&ret->engine, c->options, NULL, e);
    if (rc < 0)
        return rc;
    /* One sequence of one window; a step may score as many rows as it has. */
    ret->engine.ctx = ret->window;
    ret->engine.slots = 1;
    ret->engine.logits = ret->window;
    ret->engine.interrupted = interrupted;
    ret->engine.interrupted_context = stop;
    ret->engine.loading = loading;
    ret->engine.loading_context = report;
    return model_ledger_new(&ret->engine.ledger, c->options, e);
}

static int run(struct command_context *c, struct error *e)
{
    struct evaluation_options o = {0};
    struct evaluation_result r;
    struct report report;
    struct stop stop = {0};
    report_init(&report, option_us(c->options, OPTION_REPORT_EVERY));
    int rc = read_options(&o, c, &report, &stop, e);
    if (rc == 0)
        rc = stop_open(&stop, e);
    if (rc == 0)
        rc = evaluate(&r, &o, e);
    stop_close(&stop);
    report_end(&report);
    if (rc == 0 && option_on(c->options, OPTION_JSON))
        rc = print_json(c->out, &o, &r, e);
    else if (rc == 0)
        print_text(c->out, &o, &r);
    ledger_free(o.engine.ledger);
    return rc;
}

static const enum option_id options[] = {
    OPTION_MODEL,       OPTION_WINDOW,       OPTION_WINDOWS, OPTION_AGAINST,
    OPTION_SAVE_LOGITS, OPTION_EXACT,        OPTION_MEMORY,  OPTION_THREADS,
    OPTION_CHUNK,       OPTION_ISA,          OPTION_IO,      OPTION_EXPERT_POLICY,
    OPTION_LOOKAHEAD,   OPTION_REPORT_EVERY, OPTION_JSON,    OPTION_NONE};

const struct command command_eval = {
    .name = "eval",
    .arguments = "FILE",
    .min_args = 1,
    .max_args = 1,
    .option = options,
    .computes = true,
    .details =
        "Cuts the text of FILE into windows of -c tokens and scores the second half of each: the\n"
        "perplexity is that of llama-perplexity on the same text and context. -n takes only\n"
        "the first windows.\n\n"
        "With --against the same tokens go through a reference, too: another model of the same\n"
        "vocabulary, or the file that --save-logits wrote for it. The KL divergence and how often\n"
        "both think the same token the likeliest say what a smaller format costs. Every figure\n"
        "comes with its standard error.",
    .examples = "nocturne eval -m model.Q4_K_M.gguf book.txt --against model.BF16.gguf\n"
                "nocturne eval -m model.BF16.gguf book.txt --save-logits book.logits\n"
                "nocturne eval -m model.Q4_K_M.gguf book.txt --against book.logits --json",
    .run = run,
};
