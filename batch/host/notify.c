#include "batch/host/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"

#define MESSAGE_BYTES 512
#define PATIENCE_S 2

static int set_address(struct notify *n, const char *address, struct error *e)
{
    const size_t len = strlen(address);
    if (*address != '/' && *address != '@')
        return error_set(e, ERROR_UNSUPPORTED, "'%s' is no path and no abstract socket", address);
    if (len >= sizeof(n->to.sun_path))
        return error_set(e, ERROR_UNSUPPORTED, "'%s' is longer than a socket's path", address);
    n->to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(n->to.sun_path, address, len);
    /* An abstract name begins with a NUL and is as long as it is said to be. */
    if (*address == '@')
        n->to.sun_path[0] = '\0';
    n->to_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*address == '/'));
    return 0;
}

int notify_open(struct notify *n, const char *address, struct error *e)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    *n = NOTIFY_NOBODY;
    if (!address || !*address)
        return 0;
    int rc = set_address(n, address, e);
    if (rc)
        return rc;
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0)
        return error_sys(e, ERROR_IO, errno, "no socket to tell the service manager");
    (void)setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return 0;
}

void notify_close(struct notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    *n = NOTIFY_NOBODY;
}

void notify_send(const struct notify *n, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    if (n->fd < 0)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    const struct sockaddr *to = (const struct sockaddr *)(const void *)&n->to;
    /* What people may read is not waited for; that all is ready, and that it is not stuck, is. */
    const int how = strncmp(text, "STATUS=", 7) == 0 ? MSG_DONTWAIT : 0;
    if (sendto(n->fd, text, strlen(text), MSG_NOSIGNAL | how, to, n->to_bytes) < 0)
        log_event(LOG_DEBUG, "notify", "lost %.40s: %m", text);
}
