/*
 * What a machine is, for those who read later what ran where. Owns nothing; any thread.
 *
 * Stays true: what cannot be found out is "" or 0.
 */
#ifndef BATCH_HOST_FACTS_H
#define BATCH_HOST_FACTS_H

#include <stdint.h>

struct facts {
    char host[256];
    char kernel[256]; /* "Linux 6.1.0-25-amd64 x86_64" */
    char cpu[128];    /* as the kernel calls it */
    int cores;        /* online */
    uint64_t memory_bytes;
};

/* `root` stands before every path: "" for this machine, a folder for tests. */
void facts_read(const char *root, struct facts *ret);

#endif
