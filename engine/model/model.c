#include "engine/model/model.h"

static bool is_paged(const struct layer *l)
{
    return !(l->parts & PART_KDA);
}

struct kv_shape model_kv_shape(const struct model *m, bool exact)
{
    const struct hparams *hp = &m->hp;
    struct kv_shape s = {.f32 = exact,
                         .k_dim = hp->n_kv_heads * hp->head_dim,
                         .v_dim = hp->n_kv_heads * hp->value_dim};
    for (uint32_t il = 0; il < hp->n_layers; il++) {
        if (is_paged(&m->layers[il]))
            s.n_layers++;
        else
            s.n_recurrent++;
    }
    if (hp->kv_lora > 0) { /* the latent row serves every head as key and as value */
        s.k_dim = hp->kv_lora + hp->rope.n_rot;
        s.v_dim = 0;
    }
    if (s.n_recurrent > 0) { /* of each head a matrix and what three convolutions remember */
        uint32_t inner = hp->n_heads * hp->kda_head_dim;
        s.recurrent_floats = inner * hp->kda_head_dim + 3 * (hp->conv_kernel - 1) * inner;
    }
    return s;
}

struct tensor tensor_slice(const struct tensor *t, uint32_t i)
{
    struct tensor slice = *t;
    slice.n_rows = t->n_rows / t->n_slices;
    slice.n_slices = 1;
    slice.data = (const char *)t->data + i * t->slice_bytes;
    return slice;
}
