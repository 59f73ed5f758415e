/*
 * What the drills share: the real program as a process, made models and jobs, and what came of them.
 *
 * A drill runs the program against a database in its own folder, does something bad to it, and looks
 * at the database and the export. Everything that fails ends the test; processes that are still there
 * then are ended by the runner.
 */
#ifndef TESTS_FAULT_KIT_H
#define TESTS_FAULT_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "queue/queue.h"
#include "tests/test.h"

/* The worker of most drills; what is appended to it comes from the drill. */
#define DRILL_RUN "run -m model.gguf --raw --memory 1G --threads 1 "

/*
 * Starts `nocturne LINE` on that database; LINE is a shell's, so it may redirect. The process is the
 * program itself, not the shell. drill_wait gives its exit status, or 128 and the signal.
 */
pid_t drill_start(const char *db, const char *fmt, ...) ATTR_PRINTF(2, 3);
int drill_wait(pid_t pid);
/* Both at once. */
int drill(const char *db, const char *fmt, ...) ATTR_PRINTF(2, 3);
/* A process that has not ended on its own by now. */
bool drill_alive(pid_t pid);

/* ---- Models and jobs ---- */

/* model.gguf: small layers and a large vocabulary, so that generating costs more than resuming. */
void drill_model(unsigned n_vocab);

/*
 * Another model.gguf, whose prompts take seconds in one step of many layers, most of them with recurrent
 * states, and one such request in that file, deep-00. Of use with --exact --chunk 2048.
 */
void drill_deep(const char *jobs);

struct drill_jobs {
    int n;
    int max_tokens;   /* of the longest; the shortest has half of it */
    const char *name; /* custom_ids are NAME-00, NAME-01 ... */
};
/* Completions of that many; every second one at temperature 0.8 with a seed, the others greedy. */
void drill_write_jobs(const char *path, const struct drill_jobs *jobs);
/* One more line at the end of the file. */
void drill_add_job(const char *path, const char *custom_id, int n_words, int max_tokens);
void drill_submit(const char *db, const char *path);

/* ---- What came of them ---- */

/*
 * `nocturne export` of the database, one line for each of the n custom_ids NAME-NN in order: its
 * choices and its counts of tokens, nothing that depends on time. Each is there once and succeeded.
 */
char *drill_answers(const char *db, const char *name, int n);
/* Sum of resumed tokens over the exported answers. */
int64_t drill_resumed(const char *db);
/* The same jobs in a database of their own, undisturbed: what drill_answers says there. */
char *drill_calm_answers(const char *jobs, const char *name, int n);

/* A model, those jobs in jobs.jsonl and in the database; what they answer when nothing happens. */
char *drill_prepare(const char *db, unsigned n_vocab, const struct drill_jobs *jobs);
/* All n are done and have just these answers, which are freed. */
void drill_check_answers(const char *db, const char *name, int n, char *calm);

struct queue *drill_open(const char *db);
struct queue_counts drill_counts(struct queue *q);
/* Whether that process is the one whose row is live. */
bool drill_is_worker(struct queue *q, pid_t pid);
/* The database is whole and exactly n requests are there, all done. */
void drill_check_all_done(const char *db, int n);
/* Waits until this many requests of the state are there. */
void drill_until(struct queue *q, enum queue_state state, uint64_t at_least);
/* Waits until so many running jobs have saved progress. */
void drill_until_progress(struct queue *q, size_t n_jobs);

/* ---- Files ---- */

/* small/ is a disk of 80 MiB: room for a database, its reserve of 32 MiB and as much again. */
void drill_small_disk(void);
/* Writes to that file until nothing more fits. */
void drill_fill(const char *path);

char *drill_read(const char *path);
/* That is all that the file says. */
void drill_check_file(const char *path, const char *text);
bool drill_file_says(const char *path, const char *text);
void drill_until_file_says(const char *path, const char *text);
int drill_count(const char *path, const char *text);

#endif
