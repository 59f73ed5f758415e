#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

/* Outputs of a weight matrix are cut between threads in multiples of this. */
#define LINEAR_GRAIN 16
/* Fewer rows than this are prepared by one thread: waking the others would cost more. */
#define SERIAL_ROWS 4

struct row_loop {
    struct forward *f;
    const float *x, *w;
    float *out;
    const float *y;
    size_t stride;
    enum act_kind kind;
    size_t n_cols;
};

void for_rows(uint32_t n, parallel_fn *fn, void *context)
{
    if (n < SERIAL_ROWS)
        fn(context, 0, n, 0);
    else
        parallel_for(n, 1, fn, context);
}

static void quantise_range(void *context, size_t first, size_t last, int thread)
{
    const struct row_loop *l = context;
    (void)thread;
    size_t bytes = act_row_bytes(l->kind, l->n_cols);
    for (size_t r = first; r < last; r++)
        l->f->k->act_quantise[l->kind](l->x + r * l->stride, l->f->act[l->kind] + r * bytes,
                                       l->n_cols);
}

enum act_kind tensor_act(const struct forward *f, const struct tensor *w)
{
    return f->o.exact ? ACT_F32 : w->quant->act;
}

/* Every form that the group's formats ask for, once. */
static void quantise_group(struct forward *f, const float *x, size_t x_stride, uint32_t n,
                           const struct linear *group, size_t n_group)
{
    bool done[ACT_KINDS] = {[ACT_F32] = true};
    for (size_t g = 0; g < n_group; g++) {
        enum act_kind kind = tensor_act(f, group[g].w);
        if (done[kind])
            continue;
        struct row_loop loop = {
            .f = f, .x = x, .stride = x_stride, .kind = kind, .n_cols = group[g].w->n_cols};
        for_rows(n, quantise_range, &loop);
        done[kind] = true;
    }
}

struct group_loop {
    struct forward *f;
    const float *x;
    size_t x_stride;
    uint32_t n;
    const struct linear *group;
    size_t n_group;
};

static void add_bias(const struct linear *l, uint32_t n, size_t first, size_t last)
{
    const float *bias = l->bias->data;
    for (uint32_t r = 0; r < n; r++) {
        for (size_t i = first; i < last; i++)
            l->y[r * l->y_stride + i] += bias[i];
    }
}

void tensor_multiply(struct forward *f, const struct tensor *w, struct matmul *mm, size_t first,
                     size_t last, int thread)
{
    mm->quant = w->quant;
    mm->w = w->data;
    mm->w_row_bytes = w->row_bytes;
    mm->n_cols = w->n_cols;
    if (f->o.exact)
        matmul_exact(mm, first, last, f->decoded + (size_t)thread * f->widest_input);
    else
        f->k->matmul[w->quant->index](mm, first, last);
}

static void multiply_range(const struct group_loop *g, const struct linear *l, size_t first,
                           size_t last, int thread)
{
    enum act_kind kind = tensor_act(g->f, l->w);
    struct matmul mm = {
        .x = kind == ACT_F32 ? (const void *)g->x : g->f->act[kind],
        .x_row_bytes =
            kind == ACT_F32 ? g->x_stride * sizeof(float) : act_row_bytes(kind, l->w->n_cols),
        .n_rows = g->n,
        .y = l->y,
        .y_stride = l->y_stride,
    };
    tensor_multiply(g->f, l->w, &mm, first, last, thread);
    if (l->bias && l->bias->data)
        add_bias(l, g->n, first, last);
}

/* [first, last) counts the outputs of all matrices of the group, one after another. */
static void group_range(void *context, size_t first, size_t last, int thread)
{
    const struct group_loop *g = context;
    size_t start = 0;
    for (size_t i = 0; i < g->n_group && start < last; i++) {
        const struct linear *l = &g->group[i];
        size_t end = start + l->w->n_rows;
        if (first < end)
            multiply_range(g, l, MAX_OF(first, start) - start, MIN_OF(last, end) - start, thread);
        start = end;
    }
}

void linear_group(struct forward *f, const float *x, size_t x_stride, uint32_t n,
                  const struct linear *group, size_t n_group)
{
    size_t total = 0;
    for (size_t i = 0; i < n_group; i++)
        total += group[i].w->n_rows;
    quantise_group(f, x, x_stride, n, group, n_group);
    struct group_loop loop = {
        .f = f, .x = x, .x_stride = x_stride, .n = n, .group = group, .n_group = n_group};
    parallel_for(total, LINEAR_GRAIN, group_range, &loop);
}

static void norm_range(void *context, size_t first, size_t last, int thread)
{
    const struct row_loop *l = context;
    (void)thread;
    for (size_t r = first; r < last; r++)
        l->f->k->rms_norm(l->x + r * l->stride, l->w, l->out + r * l->stride, l->stride,
                          l->f->hp->rms_eps);
}

void norm_rows(struct forward *f, const float *x, const struct tensor *w, float *out, uint32_t n)
{
    struct row_loop loop = {.f = f, .x = x, .w = w->data, .out = out, .stride = w->n_cols};
    for_rows(n, norm_range, &loop);
}

void add_rows(struct forward *f, float *x, const float *y, uint32_t n)
{
    f->k->add(x, y, (size_t)n * f->hp->n_embd);
}
