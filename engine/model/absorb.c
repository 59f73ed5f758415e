/*
 * Latent attention in a file: which tensors a layer has, and the older form of two of them.
 *
 * Older files have attn_kv_b, per head the keys' rows and then the values' rows, [kv_lora] each. The
 * values' rows are v_b's as they stand; the keys' part is the transpose of k_b. It is decoded and
 * transposed once, to F32, since a block of another format does not survive that.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/model/arch.h"

#define KV_LORA_MAX 16384u
#define Q_LORA_MAX (1u << 20)

static bool has_tensor(const struct model *m, uint32_t il, const char *name)
{
    char full[64];
    snprintf(full, sizeof(full), "blk.%u.%s", il, name);
    return gguf_tensor_find(m->gguf, full) != NULL;
}

int mla_configure(struct model *m, struct error *e)
{
    const struct hparams *hp = &m->hp;
    if (hp->kv_lora == 0 || hp->kv_lora > KV_LORA_MAX)
        return error_set(e, ERROR_FORMAT, "attention.kv_lora_rank is %u, must be 1 to %u",
                         hp->kv_lora, KV_LORA_MAX);
    if (hp->q_lora > Q_LORA_MAX)
        return error_set(e, ERROR_FORMAT, "attention.q_lora_rank is %u, at most %u", hp->q_lora,
                         Q_LORA_MAX);
    if (hp->rope.n_rot >= hp->head_dim)
        return error_set(e, ERROR_FORMAT,
                         "rope.dimension_count is %u, must be less than the head size %u",
                         hp->rope.n_rot, hp->head_dim);
    for (uint32_t il = 0; il < hp->n_layers; il++) {
        struct layer *l = &m->layers[il];
        if (!(l->parts & PART_MLA))
            continue;
        l->parts |= hp->q_lora ? PART_Q_LORA : PART_Q_FULL;
        bool expanded = has_tensor(m, il, "attn_kv_b.weight") &&
                        !has_tensor(m, il, "attn_k_b.weight") &&
                        !has_tensor(m, il, "attn_v_b.weight");
        l->parts |= expanded ? PART_EXPANDED : PART_ABSORBED;
    }
    return 0;
}

static size_t k_b_bytes(const struct hparams *hp)
{
    size_t nope = hp->head_dim - hp->rope.n_rot;
    return ALIGN_UP(hp->n_heads * hp->kv_lora * nope * sizeof(float), (size_t)64);
}

size_t model_absorbed_bytes(const struct model *m, uint32_t il)
{
    return m->layers[il].parts & PART_EXPANDED ? k_b_bytes(&m->hp) : 0;
}

uint64_t model_repacked_bytes(const struct model *m, uint32_t n_streamed)
{
    uint64_t bytes = 0;
    for (uint32_t il = 0; il + n_streamed < m->hp.n_layers; il++)
        bytes += model_absorbed_bytes(m, il);
    return bytes;
}

static size_t head_bytes(const struct hparams *hp, const struct tensor *kv_b)
{
    return (hp->head_dim - hp->rope.n_rot + hp->value_dim) * kv_b->row_bytes;
}

/* out [head][kv_lora][nope] = the keys' rows of kv_b, transposed; row [kv_lora] is scratch. */
static void transpose_keys(const struct hparams *hp, const struct tensor *kv_b, float *out,
                           float *row)
{
    const uint32_t nope = hp->head_dim - hp->rope.n_rot;
    for (uint32_t h = 0; h < hp->n_heads; h++, out += (size_t)hp->kv_lora * nope) {
        const char *rows = (const char *)kv_b->data + h * head_bytes(hp, kv_b);
        for (uint32_t i = 0; i < nope; i++) {
            kv_b->quant->decode(rows + i * kv_b->row_bytes, row, hp->kv_lora);
            for (uint32_t c = 0; c < hp->kv_lora; c++)
                out[(size_t)c * nope + i] = row[c];
        }
    }
}

void model_absorb_layer(const struct hparams *hp, struct layer *l, float *keys, float *row)
{
    const uint32_t nope = hp->head_dim - hp->rope.n_rot;
    transpose_keys(hp, &l->kv_b, keys, row);
    l->k_b = (struct tensor){.quant = &quant_f32,
                             .n_cols = nope,
                             .n_rows = (uint64_t)hp->n_heads * hp->kv_lora,
                             .n_slices = hp->n_heads,
                             .row_bytes = nope * sizeof(float),
                             .slice_bytes = (size_t)hp->kv_lora * nope * sizeof(float),
                             .data = keys};
    l->v_b = l->kv_b;
    l->v_b.n_rows = (uint64_t)hp->n_heads * hp->value_dim;
    l->v_b.n_slices = hp->n_heads;
    l->v_b.slice_bytes = head_bytes(hp, &l->kv_b);
    l->v_b.data = (const char *)l->kv_b.data + nope * l->kv_b.row_bytes;
}

int model_absorb(struct model *m, struct error *e)
{
    m->repacked_bytes = (size_t)model_repacked_bytes(m, m->n_streamed);
    if (m->repacked_bytes == 0)
        return 0;
    float *row = mem_array(m->hp.kv_lora, sizeof(*row));
    if (!row)
        return error_set(e, ERROR_NOMEM, "no memory for a row of attn_kv_b");
    int rc = ledger_alloc(m->ledger, LEDGER_TRUNK, m->repacked_bytes, "absorbed attn_kv_b",
                          &m->repacked, e);
    float *keys = m->repacked;
    for (uint32_t il = 0; rc == 0 && il + m->n_streamed < m->hp.n_layers; il++) {
        if (!(m->layers[il].parts & PART_EXPANDED))
            continue;
        model_absorb_layer(&m->hp, &m->layers[il], keys, row);
        keys += k_b_bytes(&m->hp) / sizeof(float);
    }
    mem_free(row);
    return rc;
}
