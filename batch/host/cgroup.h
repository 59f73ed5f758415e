/*
 * The control groups of this process, and what they still let it take. Owns nothing; any thread.
 *
 * Both versions are looked at, the second one's unified tree and the first one's memory controller,
 * from the process's own group up to the top: a limit anywhere on the way holds. What others use below
 * that limit is not there to take; page cache of files is, since the kernel gives it up.
 */
#ifndef BATCH_HOST_CGROUP_H
#define BATCH_HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_PATH_BYTES 4096

/* The group whose memory controller counts this process. */
struct cgroup_place {
    bool unified;                   /* the second version */
    char folder[CGROUP_PATH_BYTES]; /* the root's path included */
    char name[CGROUP_PATH_BYTES];   /* below its mount: "/user.slice/a.scope", "/" */
};
/* False: no group can be found that has the controller. */
bool cgroup_own(const char *root, struct cgroup_place *ret);
/* Whether a file of a group has that word, between spaces. */
bool cgroup_has_word(const char *folder, const char *file, const char *word);
/* Processes of that group (second version: and of groups below) that were killed for lack of memory. */
uint64_t cgroup_kills(const char *folder);

/* Of all limits the one that leaves least. */
struct cgroup_memory {
    uint64_t limit_bytes; /* UINT64_MAX: nothing limits */
    uint64_t left_bytes;  /* of it, for this process and what it has already */
    char file[512];       /* that says so; "" */
};

/* `root` stands before every path: "" for this machine, a folder for tests. What cannot be read limits nothing. */
void cgroup_memory(const char *root, struct cgroup_memory *ret);

/*
 * What the kernel counted that the process's own group has read of block devices, of all of them together.
 * False: it does not say, or has counted nothing yet.
 */
bool cgroup_read_bytes(const char *root, uint64_t *ret);

/* Folders of the process's own groups, "" where it has none: of the second version, and of the first one's. */
struct cgroup_places {
    char unified[CGROUP_PATH_BYTES], memory[CGROUP_PATH_BYTES], cpu[CGROUP_PATH_BYTES];
    char limit[512]; /* whose limit leaves least, itself or one above it, of either version */
};
void cgroup_find(const char *root, struct cgroup_places *ret);

#endif
