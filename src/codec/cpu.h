/* Which kernels this CPU runs. Asks only for what they use, and whether the operating system saves
 * the registers: a CPU that advertises an instruction and traps it nevertheless (a virtual machine
 * that hides the registers, AMX without leave from the kernel) is not asked to run it. */
#ifndef SKY_CODEC_CPU_H
#define SKY_CODEC_CPU_H

#include <stdbool.h>

/* AVX2, F16C, BMI, BMI2 and POPCNT, and ymm registers. */
bool sky__cpu_has_avx2(void);

/* The above, AVX-512 F, BW, DQ, VL, VBMI and VBMI2, and zmm and mask registers. */
bool sky__cpu_has_avx512(void);

#endif
