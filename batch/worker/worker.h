/*
 * The worker: claims jobs, lets the engine run them, saves what comes of it.
 *
 * Owns the engine, the ledger, the worker's row and everything about the jobs it runs. The only place
 * that holds a queue and an engine at the same time.
 *
 * Stays true:
 *  - A job is in the engine only while it is this worker's in the queue; a refused write drops the
 *    sequence, a refused beat ends the worker (exit status 3) without another write.
 *  - Tokens are saved at once when they are the first of an attempt, else at most a second later; a
 *    result is saved in the transaction that ends its job. So SIGKILL at any instant loses at most a
 *    second of one attempt's tokens, and never a result.
 *  - A full disk loses nothing: jobs stay in memory, nothing is claimed, and work goes on by itself
 *    when there is room again.
 *  - A fault of the request is its answer; a fault of the worker returns the job to the queue.
 *
 * One thread, beside the beat's and the one that receives signals.
 */
#ifndef BATCH_WORKER_WORKER_H
#define BATCH_WORKER_WORKER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "batch/stop.h"
#include "batch/window.h"
#include "queue/queue.h"

/*
 * Page cache that a worker's database, log and saved states may cause: what goes through them is let go
 * again (queue/sqlite.h, base/file.h).
 */
#define WORKER_CACHE_BYTES (UINT64_C(64) << 20)

/* What to do while another process uses a GPU. */
enum guard_gpu {
    GUARD_GPU_AUTO, /* wait where the GPU's memory is the machine's, else ignore */
    GUARD_GPU_WAIT,
    GUARD_GPU_PAUSE, /* pause the queue: a person resumes it */
    GUARD_GPU_IGNORE,
};

struct worker_options {
    const char *root; /* stands before every path of the machine: "", or a folder for tests */
    const char *model_path;
    const char *alias;     /* the model's name in answers; NULL: its file's */
    uint64_t memory_bytes; /* 0: from what is available */
    int threads;
    uint32_t ctx, slots, chunk; /* 0: the engine's default */
    const char *isa, *io, *expert_policy, *chat_format;
    bool exact, lookahead;
    bool raw;         /* messages' contents as plain text */
    bool match_model; /* refuse requests that name another model */
    bool drain;       /* stop when nothing is left */
    struct windows windows;
    bool keep_loaded;  /* outside of them */
    uint64_t max_jobs; /* stop when so many have ended; 0: no */
    enum guard_gpu gpu_busy;
    int64_t gpu_busy_after_us,
        gpu_free_after_us; /* how long a stranger must have been there, or not */
    bool memory_ignore;    /* load although the plan does not fit what is available */
    bool relieve;          /* stand back when memory is short */
    int haste;             /* so many seconds pass for that in one; 1 but in tests */
    int64_t lease_us, report_us, space_check_us;
    int64_t snapshot_after_us;  /* a stop keeps what took longer than this to compute */
    const char *notify_socket;  /* of the service manager; NULL: there is none */
    int64_t watchdog_us;        /* 0: it does not watch */
    const cJSON *configuration; /* for the record of the run */
    const char *hook;           /* for sh -c, told what happens; NULL: none */
    int64_t hook_timeout_us;
    struct output *json; /* the end's figures go there, too; NULL: no */
};

/* An exit status (0, 1 drained with failures, 130 after SIGINT), or a negative code. */
int worker_run(const struct worker_options *o, struct queue *q, struct stop *stop, struct error *e);

#endif
