/* The numbers of a model: what may be chosen, what is left at the defaults, and what follows. */
#include "tools/model/spec.h"

#include <inttypes.h>
#include <string.h>

#include "tools/model/topics.h"

#define DIMENSION(text, member, smallest, largest)                                                 \
    {                                                                                              \
        .option = text, .field = offsetof(struct spec, member), .min = smallest, .max = largest    \
    }

const struct spec_dimension spec_dimensions[SPEC_DIMENSIONS] = {
    DIMENSION("layers", n_layers, 1, SPEC_LAYERS_MAX),
    DIMENSION("embd", n_embd, 1, 1 << 16),
    DIMENSION("heads", n_heads, 1, 1024),
    DIMENSION("kv-heads", n_kv_heads, 1, 1024),
    DIMENSION("head-dim", head_dim, 1, 1024),
    DIMENSION("ff", n_ff, 1, 1 << 18),
    DIMENSION("ctx", n_ctx, 1, 1 << 24),
    DIMENSION("vocab", n_vocab, 1, VOCAB_TOKENS_MAX),
    DIMENSION("experts", n_experts, 0, 1024),
    DIMENSION("used", n_used, 1, 1024),
    DIMENSION("shared", n_shared, 0, 64),
    DIMENSION("expert-ff", expert_ff, 1, 1 << 16),
    DIMENSION("dense-layers", dense_lead, 0, SPEC_LAYERS_MAX),
    DIMENSION("latent", latent, 0, 1 << 16),
    DIMENSION("groups", n_groups, 0, 1024),
    DIMENSION("groups-used", n_groups_used, 0, 1024),
    DIMENSION("q-lora", q_lora, 0, 1 << 16),
    DIMENSION("kv-lora", kv_lora, 1, 1 << 16),
    DIMENSION("nope", nope, 1, 1024),
    DIMENSION("rope", rope, 2, 1024),
    DIMENSION("v-dim", v_dim, 1, 1024),
    DIMENSION("kda-dim", kda_dim, 1, 1024),
    DIMENSION("conv", conv, 2, 16),
    DIMENSION("mla-every", mla_every, 1, SPEC_LAYERS_MAX),
    DIMENSION("res-block", res_block, 1, SPEC_LAYERS_MAX),
    DIMENSION("yarn-ctx", yarn_ctx, 1, 1 << 24),
    DIMENSION("topics", n_topics, 0, TOPICS_MAX),
};

uint32_t spec_u32(const struct spec *s, size_t field)
{
    uint32_t v;
    memcpy(&v, (const char *)s + field, sizeof(v));
    return v;
}

void spec_set_u32(struct spec *s, size_t field, uint32_t value)
{
    memcpy((char *)s + field, &value, sizeof(value));
}

void spec_init(struct spec *s)
{
    *s = (struct spec){0};
    for (size_t i = 0; i < SPEC_DIMENSIONS; i++)
        spec_set_u32(s, spec_dimensions[i].field, SPEC_UNSET);
}

unsigned spec_facts(const struct spec *s)
{
    unsigned facts = s->tied ? 0 : IF_UNTIED;
    facts |= s->n_experts > 0 ? IF_EXPERTS : 0;
    facts |= s->n_experts > 0 && s->n_shared > 0 ? IF_SHARED : 0;
    facts |= s->latent > 0 ? IF_LATENT : 0;
    facts |= s->q_lora > 0 ? IF_Q_LORA : IF_Q_WHOLE;
    facts |= s->legacy ? IF_LEGACY : IF_ABSORBED;
    facts |= s->merged ? IF_MERGED : IF_APART;
    facts |= s->n_groups > 0 ? IF_GROUPS : 0;
    facts |= s->yarn ? IF_YARN : 0;
    facts |= s->gating == 2 ? IF_SIGMOID : 0;
    return facts;
}

unsigned spec_layer_facts(const struct spec *s, uint32_t layer)
{
    const bool kda = s->kda_dim > 0 && !s->mla[layer];
    const bool experts = s->n_experts > 0 && layer >= s->dense_lead;
    const unsigned facts = spec_facts(s) & ~(unsigned)(experts ? 0 : IF_EXPERTS);
    return facts | (kda ? IF_KDA : IF_MLA) | (experts ? 0 : IF_DENSE);
}

/* A scheme of the architecture's own: the last layer of every few has MLA, and the last of all. */
static void place_mla(struct spec *s)
{
    for (uint32_t i = 0; i < s->n_layers; i++)
        s->mla[i] = i % s->mla_every == s->mla_every - 1 || i == s->n_layers - 1;
}

static int parse_mla_layers(const char *text, struct spec *s, struct error *e)
{
    while (text) {
        char number[16];
        const char *from = text;
        int64_t layer = 0;
        if (!str_take_word(&text, number, sizeof(number)))
            return error_set(e, ERROR_USAGE, "'%.20s' is no layer", from);
        int rc = str_parse_int(number, 0, (int64_t)s->n_layers - 1, &layer, e);
        if (rc < 0)
            return rc;
        s->mla[layer] = true;
    }
    return 0;
}

static void derive(struct spec *s)
{
    s->one = 1;
    s->n_used = s->n_experts > 0 ? s->n_used : 0;
    s->q_width = s->n_heads * s->head_dim;
    s->kv_width = s->n_kv_heads * s->head_dim;
    s->mla_key = s->nope + s->rope;
    s->mla_q_width = s->n_heads * s->mla_key;
    s->mla_kv_heads = s->legacy ? s->n_heads : 1;
    s->kv_a_width = s->kv_lora + s->rope;
    s->kv_b_width = s->n_heads * (s->nope + s->v_dim);
    s->mla_out_width = s->n_heads * s->v_dim;
    s->cached_key = s->legacy ? s->mla_key : s->kv_a_width;
    s->cached_value = s->legacy ? s->v_dim : s->kv_lora;
    s->kda_width = s->n_heads * s->kda_dim;
    s->expert_in = s->latent > 0 ? s->latent : s->n_embd;
    s->shared_ff = s->n_shared * s->expert_ff;
    s->both_ff = 2 * s->n_ff;
    s->both_expert_ff = 2 * s->expert_ff;
}

static int check(const struct spec *s, struct error *e)
{
    if (s->n_kv_heads > 0 && s->n_heads % s->n_kv_heads != 0)
        return error_set(e, ERROR_USAGE,
                         "%" PRIu32 " heads are not a multiple of %" PRIu32 " kv heads", s->n_heads,
                         s->n_kv_heads);
    if (s->head_dim % 2 != 0 || s->rope % 2 != 0)
        return error_set(e, ERROR_USAGE,
                         "head dimension %" PRIu32 " is odd: it is rotated in pairs",
                         s->head_dim % 2 != 0 ? s->head_dim : s->rope);
    if (s->n_experts > 0 && s->n_used > s->n_experts)
        return error_set(e, ERROR_USAGE, "%" PRIu32 " of %" PRIu32 " experts cannot be used",
                         s->n_used, s->n_experts);
    if (s->n_groups > 0 && (s->n_experts % s->n_groups != 0 || s->n_groups_used > s->n_groups))
        return error_set(e, ERROR_USAGE,
                         "%" PRIu32 " experts do not make %" PRIu32 " groups of which %" PRIu32
                         " are used",
                         s->n_experts, s->n_groups, s->n_groups_used);
    return 0;
}

int spec_complete(const struct spec *defaults, struct spec *s, const char *mla_layers,
                  struct error *e)
{
    const uint32_t default_kv_heads = defaults->n_kv_heads;
    if (s->n_kv_heads == SPEC_UNSET && s->n_heads != SPEC_UNSET && default_kv_heads > 0)
        s->n_kv_heads = s->n_heads % default_kv_heads == 0 ? default_kv_heads : 1;
    for (size_t i = 0; i < SPEC_DIMENSIONS; i++) {
        const size_t field = spec_dimensions[i].field;
        if (spec_u32(s, field) == SPEC_UNSET)
            spec_set_u32(s, field, spec_u32(defaults, field));
    }
    derive(s);
    int rc = check(s, e);
    if (rc == 0 && s->kda_dim > 0 && mla_layers)
        rc = parse_mla_layers(mla_layers, s, e);
    else if (rc == 0 && s->kda_dim > 0)
        place_mla(s);
    return rc;
}
