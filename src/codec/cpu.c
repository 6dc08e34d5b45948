/* See cpu.h. */
#include "codec/cpu.h"

#include <stdint.h>

#if defined(__x86_64__)

#include <cpuid.h>

/* Bits of cpuid. Leaf 1, ecx: */
#define OSXSAVE (1u << 27)
#define AVX     (1u << 28)
#define F16C    (1u << 29)
#define POPCNT  (1u << 23)
/* Leaf 7, ebx and ecx: */
#define BMI      (1u << 3)
#define AVX2     (1u << 5)
#define BMI2     (1u << 8)
#define AVX512F  (1u << 16)
#define AVX512DQ (1u << 17)
#define AVX512BW (1u << 30)
#define AVX512VL (1u << 31)
#define VBMI     (1u << 1)
#define VBMI2    (1u << 6)
/* Registers that xgetbv says are saved: xmm and ymm; masks, zmm 0 … 15 high halves, zmm 16 … 31. */
#define YMM_SAVED 0x06u
#define ZMM_SAVED 0xe6u

typedef struct {
    uint32_t basic; /* leaf 1, ecx */
    uint32_t more;  /* leaf 7, ebx */
    uint32_t most;  /* leaf 7, ecx */
    uint32_t saved;
} features;

static features ask_cpu(void) {
    features f = {0};
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &f.basic, &d) || !(f.basic & OSXSAVE))
        return f;
    __asm__ volatile("xgetbv" : "=a"(f.saved), "=d"(d) : "c"(0));
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        f.more = b;
        f.most = c;
    }
    return f;
}

static bool has_all_bits(uint32_t bits, uint32_t wanted) {
    return (bits & wanted) == wanted;
}

static bool has_avx2(const features *f) {
    return has_all_bits(f->basic, AVX | F16C | POPCNT) &&
           has_all_bits(f->more, AVX2 | BMI | BMI2) && has_all_bits(f->saved, YMM_SAVED);
}

bool sky__cpu_has_avx2(void) {
    features f = ask_cpu();
    return has_avx2(&f);
}

bool sky__cpu_has_avx512(void) {
    features f = ask_cpu();
    return has_avx2(&f) && has_all_bits(f.more, AVX512F | AVX512DQ | AVX512BW | AVX512VL) &&
           has_all_bits(f.most, VBMI | VBMI2) && has_all_bits(f.saved, ZMM_SAVED);
}

#else

bool sky__cpu_has_avx2(void) {
    return false;
}

bool sky__cpu_has_avx512(void) {
    return false;
}

#endif
