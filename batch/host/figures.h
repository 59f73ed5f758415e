/*
 * Numbers in the small texts that a kernel has for people: /proc and control groups. Owns nothing; any
 * thread.
 *
 * Stays true: what cannot be read, and what is no number ("max"), is -1, unknown, and never 0.
 */
#ifndef BATCH_HOST_FIGURES_H
#define BATCH_HOST_FIGURES_H

#include <stdint.h>

#include "base/buf.h"

/* Room for a path below one of a control group, which may be as long as a path can be. */
#define FIGURES_PATH_BYTES 8192

/* The file as text, "" when it cannot be read. buf_release(out) follows either way. */
const char *figures_read(struct buf *out, const char *folder, const char *file);
/* The number behind that word at the beginning of a line: "pgmajfault 7", "VmRSS:  20 kB". */
int64_t figure_of(const char *text, const char *key);
/* The same of a file; key "": of its first line. */
int64_t figure_in(const char *folder, const char *file, const char *key);
/* The difference of a counter that only grows; -1 when either is unknown. */
int64_t figure_since(int64_t before, int64_t now);

#endif
