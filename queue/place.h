/*
 * Whether a path is a place where the database may live.
 *
 * WAL needs shared memory between all its users, so one host and a local disk; and whoever opens the
 * file must be able to write it and its folder, or he leaves a -wal that its owner cannot write.
 * Pure but for place_check. Any thread.
 */
#ifndef QUEUE_PLACE_H
#define QUEUE_PLACE_H

#include "base/error.h"

/*
 * The name of the network file system with that statfs type, or NULL when it is not one. For FUSE
 * `mount_type` decides ("fuse.sshfs"); it may be NULL.
 */
const char *place_network_name(long statfs_type, const char *mount_type);
/* Checks the folder, and the file where it exists. */
int place_check(const char *path, struct error *e);

#endif
