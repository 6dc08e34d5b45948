/* Lossless elements by AVX2: the scalar text once more, whose loops become vectors. */
#define sky__exact_gather   sky__exact_gather_avx2
#define sky__exact_prepare  sky__exact_prepare_avx2
#define sky__exact_scatter  sky__exact_scatter_avx2
#define sky__exact_split    sky__exact_split_avx2
#define sky__exact_contexts sky__exact_contexts_avx2
#define sky__exact_join     sky__exact_join_avx2
#define sky__exact_usual    sky__exact_usual_avx2
#define sky__exact_keys     sky__exact_keys_avx2

#include "codec/exact.c"
