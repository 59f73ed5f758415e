/*
 * Telling the service manager how it goes: sd_notify's protocol, one datagram a message to the socket
 * that $NOTIFY_SOCKET names (a path, or "@name" in the abstract space).
 *
 * Owns the socket. Without an address every call is a no-op, so nobody asks whether there is a manager.
 * A manager that does not listen is waited for briefly, for a mere STATUS not at all, and what it
 * does not take is lost: nothing that is said here is worth a token. Threads: notify_open and
 * notify_close before and after all others.
 */
#ifndef BATCH_HOST_NOTIFY_H
#define BATCH_HOST_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "base/error.h"

struct notify {
    int fd; /* -1: nobody to tell */
    struct sockaddr_un to;
    socklen_t to_bytes;
};

#define NOTIFY_NOBODY ((struct notify){.fd = -1})

/* NULL or "": nobody. */
int notify_open(struct notify *n, const char *address, struct error *e);
void notify_close(struct notify *n);
/* "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=..." */
void notify_send(const struct notify *n, const char *fmt, ...) ATTR_PRINTF(2, 3);

#endif
