/*
 * Any bytes through every kind of vocabulary: what is UTF-8 comes back, and parsing for special tokens
 * reads the same text. The vocabularies are small and made here.
 */
#include "engine/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "engine/gguf/gguf.h"
#include "engine/gguf/write.h"
#include "engine/tokenizer/bytemap.h"
#include "tests/fuzz/fuzz.h"

#define BYTES 256
#define EXTRA 8
#define KINDS 10

/* Byte-level: the bytes, some merges of them, two special texts of which one starts with the other. */
static void put_bpe(struct gguf_writer *w, const char *pre)
{
    static const char *const extra[EXTRA] = {"aa",  "aaaa",   "th",  "the",
                                             "<s>", "<s><s>", "<u>", "11"};
    static const char *const merge[] = {"a a", "aa aa", "t h", "th e", "1 1", "e e", "ee a"};
    static char text[BYTES][4];
    struct str token[BYTES + EXTRA];
    struct str merges[sizeof merge / sizeof *merge];
    int32_t type[BYTES + EXTRA];
    for (int i = 0; i < BYTES; i++) {
        token[i] = str_slice(text[i], str_utf8_put(bytemap_rune((uint8_t)i), text[i]));
        type[i] = 1;
    }
    for (int i = 0; i < EXTRA; i++) {
        token[BYTES + i] = str_of(extra[i]);
        type[BYTES + i] = extra[i][0] != '<' ? 1 : extra[i][1] == 'u' ? 4 : 3;
    }
    for (size_t i = 0; i < sizeof merge / sizeof *merge; i++)
        merges[i] = str_of(merge[i]);
    gguf_put_str(w, "tokenizer.ggml.model", str_of("gpt2"));
    gguf_put_str(w, "tokenizer.ggml.pre", str_of(pre));
    gguf_put_strs(w, "tokenizer.ggml.tokens", token, BYTES + EXTRA);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", type, BYTES + EXTRA);
    gguf_put_strs(w, "tokenizer.ggml.merges", merges, sizeof merge / sizeof *merge);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", BYTES + 4);
}

static void put_spm(struct gguf_writer *w)
{
    static const char *const extra[EXTRA] = {"\xE2\x96\x81", "a", "aa", "th", "e", "the", "t", "h"};
    static char text[BYTES][8];
    struct str token[BYTES + EXTRA];
    int32_t type[BYTES + EXTRA];
    float score[BYTES + EXTRA];
    for (int i = 0; i < BYTES + EXTRA; i++) {
        if (i < BYTES)
            snprintf(text[i], sizeof text[i], "<0x%02X>", (unsigned)i);
        token[i] = str_of(i < BYTES ? text[i] : extra[i - BYTES]);
        type[i] = i < BYTES ? 6 : 1;
        score[i] = (float)-i;
    }
    gguf_put_str(w, "tokenizer.ggml.model", str_of("llama"));
    gguf_put_strs(w, "tokenizer.ggml.tokens", token, BYTES + EXTRA);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", type, BYTES + EXTRA);
    gguf_put_f32s(w, "tokenizer.ggml.scores", score, BYTES + EXTRA);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
}

static struct tokenizer *make(int kind)
{
    static const char *const pre[KINDS] = {"gpt-2",   "smollm",  "llama-bpe",   "qwen2",
                                           "default", "kimi-k2", "deepseek-v3", "deepseek-llm",
                                           "qwen35",  NULL};
    char path[64];
    struct error e = {0};
    struct gguf_writer *w;
    struct gguf *g;
    struct tokenizer *t = NULL;
    snprintf(path, sizeof path, "/tmp/fuzz-tokenizer-%ld.gguf", (long)getpid());
    demand(gguf_writer_new(&w, path, 0, &e) == 0);
    gguf_put_str(w, "general.architecture", str_of("llama"));
    if (pre[kind])
        put_bpe(w, pre[kind]);
    else
        put_spm(w);
    demand(gguf_writer_begin(w, &e) == 0 && gguf_writer_end(w, &e) == 0);
    gguf_writer_free(w);
    demand(gguf_open(&g, path, &e) == 0 && tokenizer_new(&t, g, &e) == 0);
    gguf_close(g);
    unlink(path);
    return t;
}

/* SentencePiece writes spaces as U+2581 and puts one after every special token. */
static bool comes_back(struct str text, bool spm, unsigned flags)
{
    return str_utf8_valid(text, NULL) &&
           !(spm && (flags || (text.len && memmem(text.ptr, text.len, "\xE2\x96\x81", 3))));
}

static void check(const struct tokenizer *t, struct str text, bool spm, unsigned flags)
{
    struct error e = {0};
    struct tokens ids = {0};
    struct detokenizer d;
    struct buf back;
    buf_init(&back, SIZE_MAX);
    demand(tokenizer_encode(t, text, flags, &ids, &e) == 0);
    detokenizer_init(&d, t, true);
    for (size_t i = 0; i < ids.n; i++)
        demand(detokenizer_push(&d, ids.ids[i], &back, &e) == 0);
    demand(detokenizer_finish(&d, &back, &e) == 0);
    demand(str_utf8_valid(buf_str(&back), NULL));
    demand(!comes_back(text, spm, flags) || str_equal(buf_str(&back), text));
    buf_release(&back);
    tokens_release(&ids);
}

FUZZ(tokenizer)
{
    static struct tokenizer *made[KINDS];
    struct str text = str_slice((const char *)bytes, n);
    for (int kind = 0; kind < KINDS; kind++) {
        if (!made[kind])
            made[kind] = make(kind);
        check(made[kind], text, kind == KINDS - 1, 0);
        check(made[kind], text, kind == KINDS - 1, TOKENIZE_SPECIAL);
    }
}
