/*
 * Starting another program so that nothing of this one goes with it. Owns nothing.
 *
 * Stays true: the child has its three files and no other descriptor, no signal blocked or ignored, and a
 * process group of its own: kill(-pid) ends it with all that it started, and Ctrl-C on the terminal is
 * for us alone. Whoever starts it waits for it.
 */
#ifndef BATCH_HOST_SPAWN_H
#define BATCH_HOST_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#define SPAWN_NO_FILE (-1) /* /dev/null */

struct spawn {
    const char *program;      /* a path, or a name to be found in $PATH */
    const char *const *argv;  /* ends with NULL */
    char *const *environment; /* ends with NULL; NULL: this process's */
    const char *without;      /* variables that begin so are left out; NULL: none */
    const char *const *set;   /* [n_set] NAME=VALUE, in the place of what has that name */
    size_t n_set;
    int in_fd, out_fd, err_fd;
};

/* 0, or an errno: there is no such program, no memory, no room for a process. */
int spawn(const struct spawn *s, pid_t *ret_pid);

#endif
