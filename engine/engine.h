/*
 * PUBLIC. The engine: requests in, tokens out. The only header of engine/ that others include.
 *
 * Owns the loaded model, its tokenizer, the sequences being generated and every large byte of them
 * (through the ledger it is given).
 * Use: engine_open; then, from one thread, engine_submit whenever there is room and engine_poll until
 * it has nothing left; engine_close. engine_poll runs one step (every layer once, for rows of many
 * sequences) and hands out what came of it.
 *
 * Stays true:
 *  - Same request and seed: the same tokens, whatever else is in the step, however the prompt is cut
 *    into chunks, whatever the slots, threads or budget, and after a restart from its tokens.
 *  - Nothing large is allocated after engine_open; what was admitted has all the memory it can need.
 *  - Every submitted request ends in exactly one DONE or FAILED event, or by engine_cancel (none).
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/ledger.h"
#include "base/str.h"

struct engine;

/*
 * A read of one matrix of an expert as it is asked for (bench/io.c replays them). Those of one burst
 * follow each other without a moment in which none was under way.
 */
struct engine_read {
    uint64_t burst;
    uint32_t file; /* of those the model is split into */
    uint64_t offset;
    size_t bytes;
};

/* Zero means the default everywhere. */
struct engine_options {
    const char *model_path;
    struct ledger *ledger; /* NULL only with headers_only */
    int threads;           /* default: all cores of the affinity mask */
    uint32_t ctx;          /* default: the model's context */
    uint32_t
        slots; /* sequences at once; default 4, cut by the plan; explicit: refused if it does not fit */
    uint32_t chunk;       /* rows of a step at most; default 256 */
    uint32_t logits;      /* rows of a step that get logits, for engine_score; default 16 */
    uint64_t cache_bytes; /* page cache that the caller's own files cause: planned with the rest */
    const char *isa;      /* NULL, "auto", "generic", "avx2" ... */
    const char *io;       /* how experts are read: NULL, "auto", "uring" or "pread" */
    bool lookahead;       /* read what the next layer may want of the experts */
    const char *expert_policy; /* who makes room: NULL, or a name in engine/experts/policies.def */
    const char *chat_format;   /* NULL: by the model's template */
    bool exact;
    bool headers_only; /* directory, tokenizer and plan; no weights: submit and score are refused */
    bool no_tokenizer; /* for models without a vocabulary: logits only */
    /* Which experts steps want goes into that file (engine/experts/trace.h) at engine_trace; NULL: no. */
    const char *trace_path;
    /*
     * Called between layers and reads of long work; true stops it with ERROR_INTERRUPTED. It may ask for
     * engine_step and engine_counters, and for nothing else.
     */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    /* Progress of the load, in bytes. */
    void (*loading)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *loading_context;
    /* Told of every read of experts, in order, by the thread that calls engine_poll or engine_score. */
    void (*reading)(void *context, const struct engine_read *r);
    void *reading_context;
    /*
     * Counts reads of experts and of layers as they come back, from the threads that read: what a watchdog
     * looks at while a layer waits for a slow disk. NULL: nobody wants to know.
     */
    _Atomic uint64_t *n_reads;
};

/* The instruction set of the best kernels that this processor can run. */
const char *engine_isa(void);

int engine_open(struct engine **ret, const struct engine_options *o, struct error *e);
void engine_close(struct engine *en);

struct engine_info {
    const char *path;
    const char *arch;
    const char *name; /* general.name or "" */
    const char *isa;
    const char *io;             /* how experts are read: "uring" or "pread" */
    uint32_t io_depth;          /* reads of experts in flight at most; 0: not opened */
    const char *io_notice;      /* what about that is slower than it could be: "" or a sentence */
    const char *tokenizer_kind; /* "smollm", "spm" ... */
    const char *chat_format;    /* "" when there is none */
    const char *chat_refusal;   /* why there is none, "" otherwise */
    const char *model_refusal; /* headers_only: why it could not run ("" otherwise); no plan then */
    uint64_t n_params, file_bytes;
    uint32_t n_layers, n_embd, n_vocab, ctx_model, ctx, n_heads, n_kv_heads, head_dim, n_ff;
    uint32_t n_shards;    /* files the model is split into */
    uint32_t slots;       /* as planned */
    char fingerprint[65]; /* hex; model, device or ISA, exactness, cache types, numeric version */
    /* Of that and of when the files were written: only under the same one does anything go on. */
    char resume_fingerprint[65];
};
void engine_describe(const struct engine *en, struct engine_info *ret);

/*
 * What the model is made of, from its headers: all zeros when it cannot run. The trunk is every weight
 * but the routed experts. What a token reads of it is everything but the embedding's other rows (all of
 * them when the output is tied to it), and of each layer's experts those that are used.
 */
struct engine_makeup {
    uint32_t n_gqa, n_mla, n_kda;                         /* layers by their attention */
    uint32_t n_dense, n_moe;                              /* and by their network */
    uint32_t n_experts, n_experts_used, n_experts_shared; /* of a layer */
    uint64_t smallest_expert_bytes, largest_expert_bytes; /* one expert, all its matrices */
    uint64_t expert_weights;                              /* of one */
    uint64_t trunk_bytes, trunk_weights, experts_bytes, experts_weights;
    uint64_t trunk_read_bytes, trunk_read_weights; /* for a token */
    uint64_t experts_read_bytes, experts_read_weights;
    uint64_t cache_bytes;     /* of a sequence, for each of its tokens */
    uint64_t recurrent_bytes; /* of a sequence, however long */
};
void engine_makeup(const struct engine *en, struct engine_makeup *ret);

/* Tensors in file order, for `inspect`. Returns false beyond the last. */
struct engine_tensor {
    struct str name;
    const char *format;
    uint32_t n_dims;
    uint64_t ne[4];
    uint64_t bytes;
    uint32_t shard;
};
bool engine_tensor_at(const struct engine *en, size_t i, struct engine_tensor *ret);

/* The memory plan: every term, before anything is loaded. */
struct engine_plan {
    uint64_t limit_bytes; /* the budget; 0: none given */
    uint64_t process_bytes;
    uint64_t trunk_bytes; /* as stored: what stays of it */
    uint64_t repacked_bytes;
    uint32_t streamed_layers; /* the last ones, read for every step; 0: all stay */
    uint64_t streamed_bytes;  /* of them, a step */
    uint64_t ring_bytes;      /* where they are read to */
    uint64_t experts_bytes;   /* slots for experts, which are read when a router picks them */
    uint64_t expert_slots, expert_count; /* of all layers; equal: every one stays once read */
    uint64_t state_bytes;                /* slots * per_sequence_bytes */
    uint64_t scratch_bytes;
    uint64_t io_bytes;
    uint64_t cache_bytes; /* as asked for */
    uint64_t total_bytes;
    uint64_t per_sequence_bytes; /* at full ctx */
    uint64_t per_token_bytes;
    uint64_t smallest_bytes; /* the smallest budget that could run it (one slot, this ctx) */
    uint32_t slots, ctx, chunk;
    uint32_t logits; /* rows of a step that may want them */
    bool fits;
};
void engine_plan(const struct engine *en, struct engine_plan *ret);
/*
 * 0 when it can run and fits; else why the model cannot run, or ERROR_BUDGET with both figures, every
 * term and what would fit.
 */
int engine_plan_check(const struct engine *en, struct error *e);

/* What decoding one sequence is expected to take (engine/local/forecast.h says by which model). */
struct engine_forecast {
    double slots_per_layer;  /* for experts, on average */
    double hit_rate;         /* of the experts a token wants: in memory */
    uint64_t read_bytes;     /* of a token: experts that are not, layers that are streamed */
    uint64_t streamed_bytes; /* of them: the layers */
    uint64_t touched_bytes;  /* of a token: all weights it is multiplied with */
};
void engine_forecast(const struct engine *en, struct engine_forecast *ret);
/*
 * Tokens a second where the disk gives and the memory gives so many bytes a second. Layers are read while
 * others are computed; of experts nothing is hidden in what is expected, and all in what is the most.
 */
void engine_forecast_rate(const struct engine_forecast *f, double disk, double memory,
                          double *ret_expected, double *ret_at_most);

/* Text to ids, appended as int32_t to out. special: markers in the text become their tokens. */
int engine_tokenize(const struct engine *en, struct str text, bool special, bool bos,
                    struct buf *out, struct error *e);

struct engine_message {
    struct str role;
    struct str content;
    struct str reasoning; /* of an assistant's message: what it thought; may be empty */
    struct str name;      /* may be empty; most formats do not show it */
};

/* Whether the model may think before it answers, where its chat format knows of thinking. */
enum engine_reasoning {
    ENGINE_REASONING_AUTO, /* as its format does by default */
    ENGINE_REASONING_ON,   /* refused where the format does not think */
    ENGINE_REASONING_OFF,
};

struct engine_sampling {
    float temperature;     /* 0: greedy */
    int32_t top_k;         /* 0: all */
    float top_p;           /* 1: off; 0: only the likeliest */
    float min_p;           /* 0: off */
    float repeat_penalty;  /* 0 or 1: off */
    int32_t repeat_last_n; /* tokens it looks back on; -1: all */
    uint64_t seed;
};

/*
 * Everything is copied by engine_submit. Resumed tokens give no TOKEN events; when a stop rule fires
 * among them, or they reach max_tokens, the request is DONE without a step.
 *
 * A chat whose format thinks gives its thought apart from its answer. max_tokens is for both together;
 * stop strings look at the answer only. When a thought has had reasoning_budget tokens, the tokens
 * that close it follow whatever the model wants, as part of the thought, and the answer comes then;
 * the default of max_tokens grows by the budget.
 */
struct engine_request {
    uint64_t tag;                          /* the caller's name for it, in every event */
    const struct engine_message *messages; /* chat; or NULL and: */
    size_t n_messages;
    struct str prompt;    /* plain text, BOS if the vocabulary wants one */
    int64_t submitted_us; /* wall time, for dates in templates */
    struct engine_sampling sampling;
    uint32_t max_tokens; /* 0: 2048, cut to what the context leaves */
    enum engine_reasoning reasoning;
    struct str reasoning_effort; /* "low" ...; empty: the format's default */
    bool has_reasoning_budget;
    uint32_t reasoning_budget; /* tokens; 0 closes the thought at once */
    const struct str *stop;
    size_t n_stop;
    const int32_t *resume; /* tokens that an earlier attempt generated, fed as output */
    size_t n_resume;
};

enum engine_finish { ENGINE_FINISH_STOP, ENGINE_FINISH_LENGTH };
enum engine_finish_detail {
    ENGINE_DETAIL_EOS,
    ENGINE_DETAIL_STOP_STRING,
    ENGINE_DETAIL_MAX_TOKENS,
    ENGINE_DETAIL_CONTEXT
};

struct engine_usage {
    uint32_t prompt_tokens;
    uint32_t completion_tokens; /* resumed ones included */
    uint32_t reasoning_tokens;  /* of them: the thought and its markup */
    uint32_t resumed_tokens;
    uint32_t restored_tokens; /* of prompt and answer, as engine_restore says */
    double prefill_ms;        /* of this attempt: from admission to the first new token */
    double decode_ms;
    /* this sequence's share of what its steps needed, by rows */
    uint64_t bytes_read; /* from disk */
    uint64_t expert_hits, expert_misses;
    /* of these three, up to the first new token */
    uint64_t prefill_bytes_read, prefill_expert_hits, prefill_expert_misses;
    double read_ms, read_wait_ms; /* reads were under way; the step stood waiting for some */
};

enum engine_event_kind {
    ENGINE_EVENT_TOKEN,
    ENGINE_EVENT_PREFILL,
    ENGINE_EVENT_DONE,
    ENGINE_EVENT_FAILED
};

struct engine_event {
    enum engine_event_kind kind;
    uint64_t tag;
    int32_t token; /* TOKEN: also the one that ends the answer */
    struct str
        text; /* TOKEN: text certain since the last one, resumed or not (may be empty); DONE: the whole answer */
    struct str reasoning; /* the same of the thought */
    bool in_thought;      /* DONE: it ended before the answer began; finish is LENGTH then */
    uint32_t prefilled,
        prompt_tokens;         /* PREFILL: so many of the prompt's (resumed ones too) are done */
    enum engine_finish finish; /* DONE */
    enum engine_finish_detail detail;
    struct engine_usage usage; /* DONE and FAILED */
    struct error error;        /* FAILED */
};

enum engine_admission { ENGINE_ADMITTED, ENGINE_BUSY };

/*
 * 0 with *ret ADMITTED, or BUSY (no slot or not enough state memory now: offer it again when a sequence
 * has left). ERROR_CONTEXT with both token counts when it can never fit; ERROR_UNSUPPORTED without a
 * chat format; ERROR_INVALID for bad sampling values.
 */
int engine_submit(struct engine *en, const struct engine_request *r, enum engine_admission *ret,
                  struct error *e);

/*
 * Runs one step when there is work and no event is waiting, then gives the next event: 1, 0 when
 * there is nothing to do, or a negative code when the step failed (every sequence is then void: the
 * caller releases their jobs). ERROR_INTERRUPTED is no failure: the step is suspended before a layer, and
 * the next call goes on with it; until then its sequences may be kept (engine_snapshot) or cancelled, and
 * others submitted. Pointers in the event hold until the next call.
 */
int engine_poll(struct engine *en, struct engine_event *ret, struct error *e);
/* The step that is being run, or is suspended: all zeros when there is none. */
struct engine_step {
    uint32_t layer, n_layers; /* layers behind it, and in all */
    uint32_t n_rows;
};
void engine_step(const struct engine *en, struct engine_step *ret);
/* Whether engine_poll has something to do or to tell. */
bool engine_busy(const struct engine *en);
/* Whether an event waits: engine_poll then gives it without running a step. */
bool engine_has_event(const struct engine *en);
/* Room for another request of any size at all. */
bool engine_room(const struct engine *en);
/* Drops a sequence without an event; unknown tags are ignored. */
void engine_cancel(struct engine *en, uint64_t tag);

/*
 * A running request's computed state as a file: what the model has made of its first tokens, bit for
 * bit, and of those that a suspended step has part of the way. Written beside its name and renamed.
 * *ret_tokens: what it saves to compute; rows that are part of the way count by their layers. 0 bytes:
 * nothing has been computed yet.
 */
uint64_t engine_snapshot_bytes(struct engine *en, uint64_t tag, uint32_t *ret_tokens);
int engine_snapshot(struct engine *en, uint64_t tag, const char *path, struct error *e);
/*
 * Right after the admission: the request begins where the snapshot stands, in the middle of the model if
 * need be, whatever the budget was then and is now. The file stays open until its rows are all through, and
 * may be removed. *ret_tokens as above. On an error (another text,
 * model or arithmetic: ERROR_CONFLICT; a damaged file: ERROR_FORMAT) it begins at the beginning, as if
 * nothing had been tried. 0 with no tokens: the request has ended already.
 */
int engine_restore(struct engine *en, uint64_t tag, const char *path, uint32_t *ret_tokens,
                   struct error *e);

/*
 * Token ids to logits, for checking against a reference: calls row(context, position, logits, n_vocab)
 * for the last `last` positions (0: all), in order; row NULL: of none. Rows are independent of chunking.
 */
typedef int engine_row_fn(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                          struct error *e);
int engine_score(struct engine *en, const int32_t *ids, size_t n, size_t last, engine_row_fn *row,
                 void *context, struct error *e);

/* Ends the record of trace_path: the file is there, whole, or not at all. Without it there is none. */
int engine_trace(struct engine *en, struct error *e);

/*
 * Memory is short: experts' slots go back to the ledger, so many bytes or as many as can go. Between two calls
 * of engine_poll; answers do not change. Returns the bytes given back.
 */
uint64_t engine_shrink_experts(struct engine *en, uint64_t bytes);

struct engine_counters {
    uint64_t steps, rows, prompt_tokens, decode_tokens, bytes_read;
    uint64_t row_layers; /* rows times layers they went through, of suspended steps too */
    double load_ms, step_ms;
    uint64_t load_bytes;
    uint64_t experts_wanted;             /* by steps: the distinct ones of each layer and step */
    uint64_t expert_hits, expert_misses; /* of them: resident before the step, read for it */
    uint64_t expert_guesses, expert_good_guesses; /* read on a guess; and wanted then */
    uint64_t expert_reads;                        /* of one matrix each */
    double expert_busy_ms;                        /* at least one of them was under way */
    double expert_wait_ms;                        /* steps stood waiting for reads of experts */
    uint64_t layer_bytes;                         /* of bytes_read: streamed layers */
    double layers_wait_ms;                        /* and of streamed layers */
    uint32_t worst_file_failures;                 /* reads of one file of the model that failed */
};
void engine_counters(const struct engine *en, struct engine_counters *ret);

#endif
