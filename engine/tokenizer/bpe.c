#include "engine/tokenizer/bpe.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/bytemap.h"
#include "engine/tokenizer/pretok.h"
#include "engine/tokenizer/tokenizer.h"

static struct bpe_merge *slot_for(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(h >> 32) & (b->n_slots - 1);
    while (b->merge[at].result >= 0 && (b->merge[at].left != left || b->merge[at].right != right))
        at = (at + 1) & (b->n_slots - 1);
    return &b->merge[at];
}

static int make_slots(struct bpe *b, uint64_t n_merges, struct error *e)
{
    uint64_t n = 64;
    while (n / 3 * 2 < n_merges)
        n *= 2;
    if (n_merges > INT32_MAX / 2)
        return error_set(e, ERROR_FORMAT, "vocabulary: %" PRIu64 " merges, limit %d", n_merges,
                         INT32_MAX / 2);
    b->merge = mem_array((size_t)n, sizeof *b->merge);
    if (!b->merge)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %" PRIu64 " merges", n_merges);
    b->n_slots = (uint32_t)n;
    for (uint32_t i = 0; i < b->n_slots; i++)
        b->merge[i].result = -1;
    return 0;
}

/* "left right": the space that separates is the first one that does not start the line. */
static int add_merge(struct bpe *b, struct vocab *v, struct str line, uint32_t rank,
                     struct buf *joined, struct error *e)
{
    const char *space = line.len > 1 ? memchr(line.ptr + 1, ' ', line.len - 1) : NULL;
    size_t left_len = space ? (size_t)(space - line.ptr) : 0;
    if (!space || left_len + 1 == line.len)
        return error_set(e, ERROR_FORMAT, "merge %" PRIu32 " is not two pieces and a space", rank);
    struct str left = str_slice(line.ptr, left_len);
    struct str right = str_slice(space + 1, line.len - left_len - 1);
    struct bpe_merge m = {.rank = rank};
    buf_clear(joined);
    buf_append_str(joined, left);
    buf_append_str(joined, right);
    int rc = buf_check(joined, "merge", e);
    if (rc == 0)
        rc = texts_intern(&v->texts, left, &m.left, e);
    if (rc == 0)
        rc = texts_intern(&v->texts, right, &m.right, e);
    if (rc == 0)
        rc = texts_intern(&v->texts, buf_str(joined), &m.result, e);
    if (rc < 0)
        return rc;
    struct bpe_merge *slot = slot_for(b, m.left, m.right);
    if (slot->result < 0)
        *slot = m; /* of equal lines the first counts */
    return 0;
}

static int32_t find_normal(const struct vocab *v, const char *text, size_t n)
{
    int32_t id = vocab_find(v, str_slice(text, n));
    return id >= 0 && v->type[id] == TOKEN_NORMAL ? id : -1;
}

/* The ways to put this token together out of two others; with `fill` each becomes a merge. */
static uint64_t merges_into(struct bpe *b, const struct vocab *v, int32_t id, bool fill)
{
    struct str text = texts_at(&v->texts, (uint32_t)id);
    uint64_t n = 0;
    for (size_t at = 1; at < text.len; at++) {
        if (((uint8_t)text.ptr[at] & 0xC0u) == 0x80u)
            continue;
        struct bpe_merge m = {.left = find_normal(v, text.ptr, at),
                              .right = find_normal(v, text.ptr + at, text.len - at),
                              .result = id,
                              .rank = (uint32_t)id};
        if (m.left < 0 || m.right < 0)
            continue;
        n++;
        if (fill)
            *slot_for(b, m.left, m.right) = m;
    }
    return n;
}

static int rank_ids(struct bpe *b, const struct vocab *v, struct error *e)
{
    uint64_t n = 0;
    b->whole_words = true;
    for (int pass = 0; pass < 2; pass++) {
        int rc = pass == 1 ? make_slots(b, n, e) : 0;
        if (rc < 0)
            return rc;
        for (int32_t id = 0; id < v->n; id++) {
            struct str text = texts_at(&v->texts, (uint32_t)id);
            if (find_normal(v, text.ptr, text.len) == id)
                n += merges_into(b, v, id, pass == 1);
        }
    }
    return 0;
}

static int load_merges(struct bpe *b, struct vocab *v, const struct gguf *g, bool ranked_ids,
                       struct error *e)
{
    struct gguf_strings it;
    uint64_t n;
    int rc = gguf_strings_begin(g, "tokenizer.ggml.merges", &it, &n, e);
    if (rc == -ERROR_NOTFOUND)
        return ranked_ids ? rank_ids(b, v, e)
                          : error_set(e, ERROR_FORMAT, "key 'tokenizer.ggml.merges' is missing");
    if (rc == 0)
        rc = make_slots(b, n, e);
    struct buf joined;
    buf_init(&joined, UINT32_MAX);
    uint32_t rank = 0;
    for (struct str line; rc == 0 && gguf_strings_next(&it, &line); rank++)
        rc = add_merge(b, v, line, rank, &joined, e);
    buf_release(&joined);
    return rc;
}

int bpe_init(struct bpe *b, struct vocab *v, const struct gguf *g, unsigned flags, struct error *e)
{
    b->whole_words = flags & PRETOK_WHOLE_WORDS;
    int rc = load_merges(b, v, g, flags & PRETOK_RANKED_IDS, e);
    for (size_t byte = 0; rc == 0 && byte < 256; byte++) {
        char text[4];
        size_t n = str_utf8_put(bytemap_rune((uint8_t)byte), text);
        rc = texts_intern(&v->texts, str_slice(text, n), &b->byte[byte], e);
    }
    return rc;
}

void bpe_release(struct bpe *b)
{
    mem_free(b->merge);
    *b = (struct bpe){0};
}

void bpe_scratch_release(struct bpe_scratch *s)
{
    mem_free(s->symbol);
    heap_release(&s->heap);
    buf_release(&s->mapped);
    *s = (struct bpe_scratch){0};
}

/* Every merge takes one candidate off and adds at most two, so 2 n of them are never exceeded. */
static int prepare(struct bpe_scratch *s, size_t n, struct error *e)
{
    if (n > s->cap) {
        size_t cap = MAX_OF(n, (size_t)64);
        struct bpe_symbol *symbol = mem_regrow(s->symbol, cap, sizeof *symbol);
        if (!symbol)
            return error_set(e, ERROR_NOMEM, "tokenizer: no memory for a word of %zu bytes", n);
        s->symbol = symbol;
        s->cap = cap;
    }
    return heap_start(&s->heap, 2 * n, e);
}

/* The merge of a symbol with the one after it; NULL: none. */
static const struct bpe_merge *merge_at(const struct bpe *b, const struct bpe_scratch *s,
                                        int32_t at)
{
    if (at < 0 || s->symbol[at].piece < 0 || s->symbol[at].next < 0)
        return NULL;
    const struct bpe_symbol *left = &s->symbol[at];
    const struct bpe_merge *m = slot_for(b, left->piece, s->symbol[left->next].piece);
    return m->result >= 0 ? m : NULL;
}

static void offer(const struct bpe *b, struct bpe_scratch *s, int32_t at)
{
    const struct bpe_merge *m = merge_at(b, s, at);
    if (m)
        heap_push(&s->heap, m->rank, (uint32_t)at);
}

static void merge_all(const struct bpe *b, struct bpe_scratch *s)
{
    while (s->heap.n > 0) {
        uint64_t key = heap_pop(&s->heap);
        int32_t at = (int32_t)heap_place(key);
        const struct bpe_merge *m = merge_at(b, s, at);
        /* Another rank here means the candidate is out of date; the same one is as good as new. */
        if (!m || m->rank != heap_order(key))
            continue;
        struct bpe_symbol *left = &s->symbol[at];
        struct bpe_symbol *right = &s->symbol[left->next];
        left->piece = m->result;
        left->next = right->next;
        right->piece = -1;
        if (left->next >= 0)
            s->symbol[left->next].previous = at;
        offer(b, s, left->previous);
        offer(b, s, at);
    }
}

/* A piece that is no token goes out byte by byte. */
static int emit(const struct bpe *b, const struct vocab *v, int32_t piece, struct tokens *out,
                struct error *e)
{
    if (piece < v->n)
        return tokens_push(out, piece, e);
    struct str text = texts_at(&v->texts, (uint32_t)piece);
    int rc = 0;
    while (rc == 0 && text.len > 0) {
        uint32_t rune;
        size_t n = str_utf8_next(text, &rune);
        int byte = bytemap_byte(rune);
        if (byte >= 0 && b->byte[byte] < v->n)
            rc = tokens_push(out, b->byte[byte], e);
        text = str_slice(text.ptr + n, text.len - n);
    }
    return rc;
}

/*
 * The token that is this whole word, -1 if none; a word longer than any token is not spelled. Text
 * never becomes a control token this way.
 */
static int whole_word(const struct vocab *v, struct bpe_scratch *s, struct str word, int32_t *ret,
                      struct error *e)
{
    *ret = -1;
    if (word.len > v->longest)
        return 0;
    s->mapped.max = SIZE_MAX;
    buf_clear(&s->mapped);
    for (size_t i = 0; i < word.len; i++) {
        char text[4];
        buf_append(&s->mapped, text, str_utf8_put(bytemap_rune((uint8_t)word.ptr[i]), text));
    }
    *ret = find_normal(v, s->mapped.ptr, s->mapped.len);
    return buf_check(&s->mapped, "word", e);
}

int bpe_word(const struct bpe *b, const struct vocab *v, struct bpe_scratch *s, struct str word,
             struct tokens *out, struct error *e)
{
    int32_t whole = -1;
    int rc = b->whole_words ? whole_word(v, s, word, &whole, e) : 0;
    if (rc == 0 && whole >= 0)
        return tokens_push(out, whole, e);
    if (rc == 0)
        rc = prepare(s, word.len, e);
    if (rc < 0)
        return rc;
    int32_t n = (int32_t)word.len;
    for (int32_t i = 0; i < n; i++)
        s->symbol[i] = (struct bpe_symbol){.piece = b->byte[(uint8_t)word.ptr[i]],
                                           .previous = i - 1,
                                           .next = i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i < n; i++)
        offer(b, s, i);
    merge_all(b, s);
    for (int32_t i = 0; rc == 0 && i >= 0; i = s->symbol[i].next)
        rc = emit(b, v, s->symbol[i].piece, out, e);
    return rc;
}
