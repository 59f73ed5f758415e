/* The two halves of a layer, as its parts say. */
#include "engine/model/blocks/blocks.h"

void layer_attention(struct forward *f, uint32_t il, const struct block *b)
{
    const unsigned parts = f->layer->parts;
    if (parts & PART_KDA)
        block_kda(f, il, b);
    else if (parts & PART_MLA)
        block_mla(f, il, b);
    else
        block_attention(f, il, b);
}

void layer_feed_forward(struct forward *f, uint32_t il, const struct block *b)
{
    if (f->layer->parts & PART_MOE)
        block_moe(f, il, b);
    else
        block_ffn(f, il, b);
}

void layer_plain(struct forward *f, uint32_t il, const struct block *b)
{
    layer_attention(f, il, b);
    layer_feed_forward(f, il, b);
}
