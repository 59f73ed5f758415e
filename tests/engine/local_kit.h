/* What the tests of the local engine share: made models, opening, running requests to their end. */
#ifndef TESTS_ENGINE_LOCAL_KIT_H
#define TESTS_ENGINE_LOCAL_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ledger.h"
#include "engine/engine.h"

/*
 * A model with a working vocabulary, written by tools/mkmodel into the test's folder: 2 layers, width
 * 256, context 512, matrices of that format. Returns its path.
 */
const char *kit_model(const char *format, char path[4096]);
/* The same in F16 with the markers of Kimi-K3 in its vocabulary: for the chat format kimi-k3. */
const char *kit_thinking_model(char path[4096]);

/* Options filled in for a made model: 2 threads, a ledger of 1 GiB made by kit_open. */
struct kit_engine {
    struct engine *en;
    struct ledger *ledger;
};
struct kit_engine kit_open(const struct engine_options *o);
void kit_close(struct kit_engine *k);
/* The plan for a model with such options within a limit; 0: without one. */
struct engine_plan kit_plan(const char *path, uint64_t limit, const struct engine_options *asked);

/* What became of a request. */
struct kit_result {
    int32_t token[600];
    size_t n_tokens;
    char text[8192]; /* of DONE; any byte may be in it */
    size_t n_text;
    char streamed[8192]; /* the texts of TOKEN, one after the other */
    size_t n_streamed;
    size_t streamed_by[600]; /* bytes of it that had come with token i */
    char thought[8192];      /* of DONE; and what of it the TOKENs gave */
    size_t n_thought;
    char streamed_thought[8192];
    size_t n_streamed_thought;
    bool in_thought;
    enum engine_finish finish;
    enum engine_finish_detail detail;
    struct engine_usage usage;
    uint32_t prefilled;
    int n_done;
    struct error error; /* FAILED */
};

/*
 * Submits r[0..n) in order as room comes and polls until everything has ended. Result i is that of
 * request i, whatever its tag. Steps are counted by the engine.
 */
void kit_run(struct engine *en, const struct engine_request *r, size_t n, struct kit_result *ret);
/* Same tokens, text, thought and end; says what differs. */
void kit_check_same(const struct kit_result *got, const struct kit_result *want, const char *what);

#endif
