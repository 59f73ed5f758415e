/* What a format's codes can be. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_CODES_H
#define ENGINE_KERNELS_CPU_VECTOR_CODES_H

enum codes {
    CODES_U4, /* unsigned, <= 15 */
    CODES_U5, /* <= 31 */
    CODES_U6, /* <= 63 */
    CODES_I8, /* signed */
};

/* Words of a super-block that have one scale. */
struct dot_part {
    int first;
    int n_words;
};

#endif
