/*
 * Rows that are part of the way through the model: those of a suspended step, and those that came back from
 * a snapshot and wait in its file for their turn.
 *
 * A sequence's parts follow its n_cached whole rows, the furthest first. Those of the suspended step are
 * in the forward pass; all others stay in the snapshot until a step has room for them, so a span that was
 * stopped goes on whatever the memory is now: in pieces where it must. Such a step begins at the part's
 * layer, with the rows of every sequence that stands there; no other step is run while there is one left.
 */
#ifndef ENGINE_LOCAL_SUSPENDED_H
#define ENGINE_LOCAL_SUSPENDED_H

#include "engine/local/local.h"

/* A sequence's parts as they would stand in a snapshot. */
struct suspended_parts {
    struct sequence_part part[SEQUENCE_PARTS];
    uint32_t n;
    bool too_many; /* for one: the sequence cannot be kept */
};
void suspended_parts(const struct engine *en, const struct sequence *s,
                     struct suspended_parts *ret);
uint32_t suspended_rows(const struct sequence_part *part, uint32_t n_parts);
/* Of n_cached whole rows and these parts: positions that layer il has taken. */
uint32_t suspended_positions(uint32_t n_cached, const struct sequence_part *part, uint32_t n_parts,
                             uint32_t il);
/* What they were to compute, in tokens: rows that are part of the way count by their layers. */
uint32_t suspended_worth(const struct engine *en, uint32_t n_cached,
                         const struct sequence_part *part, uint32_t n_parts);
/* Bytes of what the rows carry. */
uint64_t suspended_carried_bytes(const struct engine *en, const struct sequence_part *part,
                                 uint32_t n_parts);

/*
 * The rows of the suspended step that still have a sequence move together: how many there are. Sequences
 * may have left since; their rows went with them.
 */
uint32_t suspended_take_up(struct engine *en);
/* Sets n_rows of every running sequence for a step that goes on with parts: its layer; 0: there are none. */
uint32_t suspended_share(struct engine *en);
/* Their rows come out of the files. */
int suspended_load(struct engine *en, struct error *e);

#endif
