/* The dimensions of a model with a size in bytes as the goal. */
#include <inttypes.h>

#include "tools/model/spec.h"

static uint32_t pick(uint32_t given, uint32_t other)
{
    return given != SPEC_UNSET ? given : other;
}

struct sum_context {
    const struct formats *wanted;
    struct model_size size;
};

static int add_tensor(void *context, const struct tensor_row *row, const char *name,
                      const uint64_t ne[4], uint32_t n_dims, struct error *e)
{
    struct sum_context *c = context;
    (void)name;
    (void)n_dims;
    (void)e;
    const struct quant *q = model_tensor_quant(row, c->wanted, ne[0]);
    uint64_t n = ne[0] * ne[1] * ne[2] * ne[3];
    c->size.bytes += n / q->block_elems * q->block_bytes;
    c->size.n_params += n;
    c->size.n_tensors++;
    return 0;
}

struct model_size model_size(const struct model_arch *a, const struct spec *s,
                             const struct formats *wanted)
{
    struct sum_context c = {.wanted = wanted};
    (void)model_each_tensor(a, s, add_tensor, &c, NULL);
    return c.size;
}

/* The layers a model has at least: with experts, one that has them. */
static uint32_t fewest_layers(const struct spec *defaults, const struct spec *s)
{
    const uint32_t dense = pick(s->dense_lead, defaults->dense_lead);
    return MAX_OF(dense + 1, 2u);
}

/* The proportions of real models of that width; what was given stays. */
static struct spec shape_of_width(const struct model_arch *a, const struct spec *given,
                                  uint32_t n_embd)
{
    const struct spec *d = &a->defaults;
    struct spec s = *given;
    s.n_embd = pick(s.n_embd, n_embd);
    const uint32_t head_dim = s.n_embd >= 2048 ? 128 : 64;
    if (d->kv_lora > 0) {
        s.nope = pick(s.nope, head_dim);
        s.v_dim = pick(s.v_dim, head_dim);
        s.rope = pick(s.rope, head_dim / 2);
        s.kv_lora = pick(s.kv_lora, MIN_OF(s.n_embd, 512u));
        s.q_lora = pick(s.q_lora, d->q_lora > 0 ? ALIGN_UP(s.n_embd / 4, 256u) : 0);
        s.kda_dim = pick(s.kda_dim, d->kda_dim > 0 ? head_dim : 0);
        s.n_heads = pick(s.n_heads, MAX_OF(s.n_embd / head_dim, 1u));
    } else {
        s.head_dim = pick(s.head_dim, s.n_embd >= 2048 ? 128 : d->head_dim);
        s.n_heads = pick(s.n_heads, MAX_OF(s.n_embd / s.head_dim, 1u));
        s.n_kv_heads = pick(s.n_kv_heads, s.n_heads % 4 == 0 ? s.n_heads / 4 : 1);
    }
    s.n_ff = pick(s.n_ff, ALIGN_UP(s.n_embd * 8 / 3, 256u));
    s.latent = pick(s.latent, d->latent > 0 ? ALIGN_UP(s.n_embd / 2, 256u) : 0);
    s.expert_ff = pick(s.expert_ff, d->expert_ff > 0 ? ALIGN_UP(s.n_embd * 3 / 8, 256u) : 0);
    s.n_layers = pick(s.n_layers, given->n_embd != SPEC_UNSET
                                      ? fewest_layers(d, &s)
                                      : MAX_OF(s.n_embd / 128, fewest_layers(d, &s)));
    return s;
}

int model_scale(const struct model_arch *a, struct spec *s, const struct formats *wanted,
                uint64_t bytes, struct error *e)
{
    struct spec best = {0};
    uint64_t best_bytes = 0;
    uint64_t smallest = 0;
    for (uint32_t width = 256; width <= 16384; width += 256) {
        struct spec shape = shape_of_width(a, s, width);
        int rc = spec_complete(&a->defaults, &shape, NULL, e);
        if (rc < 0)
            return rc;
        uint64_t base = model_size(a, &shape, wanted).bytes;
        smallest = smallest ? smallest : base;
        if (base > bytes)
            break;
        struct spec taller = shape;
        taller.n_layers++;
        uint64_t layer = model_size(a, &taller, wanted).bytes - base;
        /* More layers for what is left; of a width that was given, as many as it takes. */
        const uint32_t most = s->n_embd != SPEC_UNSET ? SPEC_LAYERS_MAX : 2 * shape.n_layers;
        if (s->n_layers == SPEC_UNSET)
            shape.n_layers +=
                (uint32_t)MIN_OF((bytes - base) / layer, (uint64_t)most - shape.n_layers);
        best = shape;
        best_bytes = base;
    }
    if (best_bytes == 0)
        return error_set(e, ERROR_USAGE,
                         "the smallest such model has %" PRIu64 " bytes, not %" PRIu64, smallest,
                         bytes);
    *s = best;
    return spec_complete(&a->defaults, s, NULL, e);
}
