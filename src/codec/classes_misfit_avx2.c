/* Whether classes fit, by AVX2: the scalar text once more, whose loops become vectors. */
#define sky__classes_misfit sky__classes_misfit_avx2

#include "codec/classes_misfit.c"
