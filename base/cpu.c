#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

#define BIT(word, n) (((word) >> (n)&1u) != 0)

/* Which register files the operating system saves (XCR0): 2 SSE, 4 AVX, E0 the three of AVX-512. */
static uint32_t saved_registers(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

void cpu_detect(struct cpu *c)
{
    *c = (struct cpu){0};
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !BIT(ecx, 27)) /* OSXSAVE */
        return;
    uint32_t saved = saved_registers();
    if ((saved & 0x06u) != 0x06u)
        return;
    c->fma = BIT(ecx, 12);
    c->f16c = BIT(ecx, 29);
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return;
    c->avx2 = BIT(ebx, 5);
    if ((saved & 0xE6u) != 0xE6u)
        return;
    c->avx512f = BIT(ebx, 16);
    c->avx512dq = BIT(ebx, 17);
    c->avx512bw = BIT(ebx, 30);
    c->avx512vl = BIT(ebx, 31);
    c->avx512vnni = BIT(ecx, 11);
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx))
        c->avx512bf16 = BIT(eax, 5);
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

void cpu_detect(struct cpu *c)
{
    unsigned long base = getauxval(AT_HWCAP);
    unsigned long more = getauxval(AT_HWCAP2);
    *c = (struct cpu){
        .neon = (base & HWCAP_ASIMD) != 0,
        .dotprod = (base & HWCAP_ASIMDDP) != 0,
        .i8mm = (more & HWCAP2_I8MM) != 0,
    };
}

#else

void cpu_detect(struct cpu *c)
{
    *c = (struct cpu){0};
}

#endif
