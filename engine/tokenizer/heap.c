#include "engine/tokenizer/heap.h"

#include <assert.h>

#include "base/alloc.h"

int heap_start(struct heap *h, size_t n, struct error *e)
{
    h->n = 0;
    if (n <= h->cap)
        return 0;
    uint64_t *key = mem_regrow(h->key, n, sizeof *key);
    if (!key)
        return error_set(e, ERROR_NOMEM, "tokenizer: no memory for %zu candidate merges", n);
    h->key = key;
    h->cap = n;
    return 0;
}

void heap_release(struct heap *h)
{
    mem_free(h->key);
    *h = (struct heap){0};
}

void heap_push(struct heap *h, uint32_t order, uint32_t place)
{
    assert(h->n < h->cap);
    uint64_t key = (uint64_t)order << 32 | place;
    size_t at = h->n++;
    while (at > 0 && key < h->key[(at - 1) / 2]) {
        h->key[at] = h->key[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->key[at] = key;
}

uint64_t heap_pop(struct heap *h)
{
    assert(h->n > 0);
    uint64_t best = h->key[0];
    uint64_t last = h->key[--h->n];
    size_t at = 0;
    for (size_t child = 1; child < h->n; child = 2 * at + 1) {
        if (child + 1 < h->n && h->key[child + 1] < h->key[child])
            child++;
        if (last <= h->key[child])
            break;
        h->key[at] = h->key[child];
        at = child;
    }
    h->key[at] = last;
    return best;
}
