/* What this processor can do, asked once. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

struct cpu {
    bool avx2, fma, f16c;
    bool avx512f, avx512bw, avx512vl, avx512dq, avx512vnni, avx512bf16;
    bool neon, dotprod, i8mm;
};

/* Fills from CPUID / HWCAP, with the operating system's support for the registers checked. */
void cpu_detect(struct cpu *c);

#endif
