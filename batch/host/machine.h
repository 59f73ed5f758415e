/*
 * What the machine says about its memory and its disks. Owns nothing; any thread.
 */
#ifndef BATCH_HOST_MACHINE_H
#define BATCH_HOST_MACHINE_H

#include <stdint.h>

#include "base/error.h"

/* MemAvailable: what programs may still take without swapping. */
int machine_available(uint64_t *ret_bytes, struct error *e);

/*
 * The budget when nobody named one: the least of two. What is available, less a tenth (at least 1 GiB)
 * that is left for other programs; and what the control groups' limits leave (cgroup.h), less a
 * twentieth (at least 32 MiB) for what the kernel keeps on our account: page tables, sockets.
 */
struct machine_budget {
    uint64_t bytes;
    char from[700]; /* part of a sentence: where it comes from, with the figures */
};
/* `root` stands before every path: "" for this machine, a folder for tests. */
int machine_budget(const char *root, struct machine_budget *ret, struct error *e);
/*
 * A budget that was named: ERROR_BUDGET above a control group's limit, where it would be killed for
 * it; 0 with a warning ("": none) above what the limit or the machine leaves now.
 */
#define MACHINE_WARNING_BYTES 700
int machine_check_budget(const char *root, uint64_t bytes, char warning[MACHINE_WARNING_BYTES],
                         struct error *e);
/* The one that was asked for, checked, from "" then; asked 0: the one that nobody named, without a warning. */
int machine_choose_budget(const char *root, uint64_t asked, struct machine_budget *ret,
                          char warning[MACHINE_WARNING_BYTES], struct error *e);

/* Bytes read of disks since the process began, as the kernel counts; -1: it does not tell. */
struct machine_reads {
    int64_t process_bytes; /* /proc/self/io */
    int64_t group_bytes;   /* the block statistics of its control group, others in it included */
};
void machine_reads(const char *root, struct machine_reads *ret);

#endif
