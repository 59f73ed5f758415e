/*
 * A file that is not all there yet: NAME.part, and beside it NAME.part.state, a text that says which
 * bytes are good and of which file on the server they are.
 *
 * The file is cut into segments; of each the first done[i] bytes are there. Bytes are on the disk
 * before the state that counts them is (part_save), so a state that survives a power cut is true. A
 * part without a state, or one of another file or size, begins anew.
 *
 * Owns both files and the counts. Only part_finish makes the final name appear. One thread.
 */
#ifndef BATCH_FETCH_PART_H
#define BATCH_FETCH_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/fetch/answer.h"

#define PART_SUFFIX ".part"
#define PART_STATE_SUFFIX ".part.state"

struct part {
    char *path;       /* NAME.part */
    char *state_path; /* NAME.part.state */
    char *final_path; /* NAME */
    struct remote remote;
    uint64_t size;
    uint64_t segment_bytes; /* of each but the last; the whole file where it is not cut */
    uint32_t n;
    uint64_t *done;         /* [n] */
    uint64_t unsaved_bytes; /* received since part_save */
};

/* Names only; nothing is touched. Bytes of the disk that a part there holds already. */
int part_init(struct part *p, const char *dir, const char *name, struct error *e);
uint64_t part_held_bytes(const struct part *p);
/*
 * Opens what is there when it is of this file (and may be gone on with), else begins anew with its
 * space reserved. cut_bytes: length of segments, 0: one; a part that is there keeps its own unless
 * cut_bytes is 0.
 */
int part_open(struct part *p, const struct remote *remote, uint64_t cut_bytes, bool resume,
              struct error *e);
/* Nothing of it is good any more; the space stays reserved. One segment or many, as in part_open. */
int part_restart(struct part *p, const struct remote *remote, uint64_t cut_bytes, struct error *e);
void part_release(struct part *p); /* a zeroed one is fine; the files stay */

uint64_t part_segment_start(const struct part *p, uint32_t i);
uint64_t part_segment_length(const struct part *p, uint32_t i);
uint64_t part_done_bytes(const struct part *p);
/* A length for segments of a file of that size. */
uint64_t part_cut(uint64_t size);

int part_save(struct part *p, struct error *e);
/* Gives it its name; it was checked. */
int part_finish(struct part *p, struct error *e);
/* Removes both files. */
void part_discard(struct part *p);

#endif
