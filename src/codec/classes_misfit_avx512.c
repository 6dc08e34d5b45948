/* Whether classes fit, by AVX-512: the scalar text once more, whose loops become vectors. */
#define sky__classes_misfit sky__classes_misfit_avx512

#include "codec/classes_misfit.c"
