/*
 * Other processes as a person would want them named: whose, what, how large, since when.
 *
 * Owns nothing; any thread. What cannot be read (it is gone, or belongs to another namespace) is unknown,
 * which is said and is no error. `root` stands before every path: "" for this machine, a folder for tests.
 */
#ifndef BATCH_HOST_PROCESS_H
#define BATCH_HOST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct process {
    int pid;
    char user[32];    /* a name, or a number without one; "": unknown */
    char command[48]; /* with its arguments, as much as fits; "": unknown */
    uint64_t resident_bytes;
    int64_t age_s; /* -1: unknown */
};

/* False: there is nothing to be read about it; its pid is all that is known then. */
bool process_describe(const char *root, int pid, struct process *ret);
/* The one that holds most memory, besides `except`; false: there is no other. */
bool process_largest(const char *root, int except, struct process *ret);
/* "pid 4711 of alice, 'python train.py'" */
#define PROCESS_TEXT_BYTES 128
const char *process_text(const struct process *p, char out[PROCESS_TEXT_BYTES]);

#endif
