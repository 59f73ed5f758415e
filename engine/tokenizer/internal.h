/* What a tokenizer is made of: for tokenizer.c and detokenizer.c only. */
#ifndef ENGINE_TOKENIZER_INTERNAL_H
#define ENGINE_TOKENIZER_INTERNAL_H

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/pretok.h"
#include "engine/tokenizer/special.h"
#include "engine/tokenizer/spm.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"

struct tokenizer {
    struct vocab vocab;
    struct specials specials;
    struct pretok *pretok; /* NULL: SentencePiece */
    struct bpe bpe;
    struct spm spm;
};

#endif
