/*
 * Private to engine/experts: reads that nobody has asked for yet (experts_expect). Which slots they go to and
 * which of their matrices have not been begun. Nothing here locks or reads; the store does.
 *
 * A guess is on the list from when it is made until its layer is visited: then it is somebody's, or gone.
 * Meanwhile its slot may have been taken from it, like any that nobody counts on.
 */
#ifndef ENGINE_EXPERTS_GUESSES_H
#define ENGINE_EXPERTS_GUESSES_H

#include <stdbool.h>
#include <stdint.h>

#define GUESSES_MAX 16

struct guess {
    uint32_t slot, layer, expert;
    uint32_t n_begun, n_slices;
};

struct guesses {
    struct guess at[GUESSES_MAX];
    uint32_t n;
};

void guesses_add(struct guesses *g, const struct guess *x);
/* The oldest that has a matrix left to read, which is begun now: *ret_slice. NULL: none. */
const struct guess *guesses_begin(struct guesses *g, uint32_t *ret_slice);
bool guesses_waiting(const struct guesses *g);
/* Takes the last one off the list; false: it is empty. */
bool guesses_pop(struct guesses *g, struct guess *ret);

#endif
