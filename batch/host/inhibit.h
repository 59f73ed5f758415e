/*
 * Keeping the machine awake: a child `systemd-inhibit --what=sleep --mode=block cat`, which lets go when
 * the pipe that cat reads is closed. We hold its other end, so it ends with us however we end, kill -9
 * included.
 *
 * Owns the child and the pipe. Where there is no systemd-inhibit or nobody who would listen to it,
 * nothing happens but a word in the log: such machines do not go to sleep by themselves. One thread.
 */
#ifndef BATCH_HOST_INHIBIT_H
#define BATCH_HOST_INHIBIT_H

#include <stdbool.h>
#include <sys/types.h>

struct inhibit {
    pid_t pid; /* 0: no child */
    int fd;    /* our end of its pipe */
    bool refused;
};

/* From now on; again and again while it is to last, which finds out whether the child is still there. */
void inhibit_hold(struct inhibit *i, const char *why);
void inhibit_release(struct inhibit *i); /* a zeroed one is fine */

#endif
