/* Levels counted by AVX2: the scalar text once more, whose loops become vectors. */
#define sky__classes_sums  sky__classes_sums_avx2
#define sky__classes_count sky__classes_count_avx2

#include "codec/classes_count.c"
