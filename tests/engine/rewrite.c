#include "tests/engine/rewrite.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/gguf/write.h"
#include "tests/test.h"

/* A tensor as it will be written: its bytes are those of up to three of the old file. */
struct part {
    char name[80];
    uint32_t n_dims;
    uint64_t ne[4];
    const struct gguf_tensor *from[3];
};

static bool name_is(struct str name, const char *want)
{
    return want && str_equal_c(name, want);
}

static void put_keys(struct gguf_writer *w, const struct gguf *from, const struct rewrite *r)
{
    for (size_t i = 0; i < gguf_n_keys(from); i++) {
        struct gguf_value v;
        struct str key = gguf_key(from, i, &v);
        if (!name_is(key, r->omit_key) && !name_is(key, r->u32_key) && !name_is(key, r->f32_key))
            gguf_put_value(w, key, &v);
    }
    if (r->u32_key)
        gguf_put_u32(w, r->u32_key, r->u32_value);
    if (r->f32_key)
        gguf_put_f32(w, r->f32_key, r->f32_value);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The tensor of the same layer with another end of its name; NULL: there is none. */
static const struct gguf_tensor *sibling(const struct gguf *g, const char *name, const char *end)
{
    char other[160];
    snprintf(other, sizeof(other), "%.*s.%s", (int)strcspn(name + 4, ".") + 4, name, end);
    return gguf_tensor_find(g, other);
}

static void fuse(const struct gguf *from, struct part *p)
{
    char name[80];
    snprintf(name, sizeof(name), "%.*s.attn_qkv.weight", (int)strcspn(p->name + 4, ".") + 4,
             p->name);
    p->from[1] = sibling(from, p->name, "attn_k.weight");
    p->from[2] = sibling(from, p->name, "attn_v.weight");
    p->ne[1] *= 3;
    memcpy(p->name, name, sizeof(name));
}

/* False: the tensor is not in the new file. */
static bool plan_part(const struct gguf *from, size_t i, const struct rewrite *r, struct part *p)
{
    const struct gguf_tensor *t = gguf_tensor_at(from, i);
    *p = (struct part){.n_dims = t->n_dims, .from = {t}};
    CHECK(t->name.len < sizeof(p->name) && t->quant);
    memcpy(p->name, t->name.ptr, t->name.len);
    memcpy(p->ne, t->ne, sizeof(p->ne));
    if (name_is(t->name, r->omit))
        return false;
    if (r->fewer_dims && strstr(p->name, "ssm_conv1d"))
        p->n_dims = 3;
    if (r->fewer_dims &&
        ends_with(p->name, "ssm_a")) { /* {1, H, 1, 1} and {H} are {1, H} and {H, 1} */
        p->n_dims = 2;
        p->ne[1] = p->ne[0] == 1 ? p->ne[1] : 1;
    }
    const bool convolved =
        r->fuse_qkv && strncmp(p->name, "blk.", 4) == 0 && sibling(from, p->name, "ssm_a");
    if (convolved && ends_with(p->name, "attn_q.weight"))
        fuse(from, p);
    return !convolved ||
           !(ends_with(p->name, "attn_k.weight") || ends_with(p->name, "attn_v.weight"));
}

static void copy_tensor(struct gguf_writer *w, const struct gguf *from, const struct gguf_tensor *t)
{
    struct error e = {0};
    char *bytes = mem_array(t->bytes, 1);
    int fd = open(gguf_shard_path(from, t->shard), O_RDONLY | O_CLOEXEC);
    CHECK(bytes && fd >= 0);
    CHECK_INT(pread(fd, bytes, t->bytes, (off_t)t->offset), t->bytes);
    CHECK_OK(gguf_writer_data(w, bytes, t->bytes, &e), &e);
    close(fd);
    mem_free(bytes);
}

void rewrite_model(const struct gguf *from, const char *to, const struct rewrite *r)
{
    static const float zeros[8] = {0};
    const uint64_t extra_ne[4] = {8, 1, 1, 1};
    struct error e = {0};
    struct gguf_writer *w;
    struct part p;
    CHECK_OK(gguf_writer_new(&w, to, 0, &e), &e);
    put_keys(w, from, r);
    for (size_t i = 0; i < gguf_n_tensors(from); i++) {
        if (plan_part(from, i, r, &p))
            gguf_put_tensor(w, p.name, p.from[0]->quant, p.n_dims, p.ne);
    }
    if (r->extra)
        gguf_put_tensor(w, r->extra, gguf_tensor_find(from, "output_norm.weight")->quant, 1,
                        extra_ne);
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    for (size_t i = 0; i < gguf_n_tensors(from); i++) {
        if (!plan_part(from, i, r, &p))
            continue;
        for (size_t k = 0; k < 3 && p.from[k]; k++)
            copy_tensor(w, from, p.from[k]);
    }
    if (r->extra)
        CHECK_OK(gguf_writer_data(w, zeros, sizeof(zeros), &e), &e);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);
}
