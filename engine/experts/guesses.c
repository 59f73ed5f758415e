#include "engine/experts/guesses.h"

#include <assert.h>
#include <stddef.h>

void guesses_add(struct guesses *g, const struct guess *x)
{
    assert(g->n < GUESSES_MAX);
    g->at[g->n++] = *x;
}

/* g->n: none. */
static uint32_t find_waiting(const struct guesses *g)
{
    uint32_t i = 0;
    while (i < g->n && g->at[i].n_begun == g->at[i].n_slices)
        i++;
    return i;
}

const struct guess *guesses_begin(struct guesses *g, uint32_t *ret_slice)
{
    const uint32_t i = find_waiting(g);
    if (i == g->n)
        return NULL;
    *ret_slice = g->at[i].n_begun++;
    return &g->at[i];
}

bool guesses_waiting(const struct guesses *g)
{
    return find_waiting(g) < g->n;
}

bool guesses_pop(struct guesses *g, struct guess *ret)
{
    if (g->n == 0)
        return false;
    *ret = g->at[--g->n];
    return true;
}
