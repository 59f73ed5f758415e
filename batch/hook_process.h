/*
 * One run of a hook: a shell with a command, one JSON object on its standard input, all it starts.
 *
 * Owns the process and its group, and the pipe that its output comes through. The input is a file in
 * memory that is there whole before the shell is, so a command that does not read it holds nobody up.
 *
 * Stays true: no call waits for the command. It inherits nothing but its three descriptors, has every
 * signal as it comes by default and none blocked, and is a process group of its own, which Ctrl-C does
 * not reach and which one kill does. Of what it prints the beginning is kept and the rest thrown away.
 * The shell stays a zombie until the group has been seen to, so its number means nobody else.
 *
 * One thread at a time.
 */
#ifndef BATCH_HOOK_PROCESS_H
#define BATCH_HOOK_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

struct hook_process {
    pid_t pid; /* 0: none */
    int out_fd;
    bool quiet; /* nobody holds the other end of its output any more */
    bool killed;
    int status; /* as wait gives it, once it is over */
    char said[512];
    size_t n_said;
};

/* What it is told: NAME=VALUE beside what this process has in its environment. */
struct hook_order {
    const char *command; /* for sh -c */
    const char *const *variables;
    size_t n_variables;
    struct str input;
};

int hook_process_start(struct hook_process *p, const struct hook_order *o, struct error *e);
/*
 * Whether it is over: the shell has ended and nobody has its output open, or it was killed and has
 * gone. Then it has been let go, and status and said tell how it was.
 */
bool hook_process_over(struct hook_process *p);
/* Kills the group; it is over soon. */
void hook_process_kill(struct hook_process *p);

#endif
