/* Lossless elements by AVX-512: the scalar text once more, whose loops become vectors. */
#define sky__exact_gather   sky__exact_gather_avx512
#define sky__exact_prepare  sky__exact_prepare_avx512
#define sky__exact_scatter  sky__exact_scatter_avx512
#define sky__exact_split    sky__exact_split_avx512
#define sky__exact_contexts sky__exact_contexts_avx512
#define sky__exact_join     sky__exact_join_avx512
#define sky__exact_usual    sky__exact_usual_avx512
#define sky__exact_keys     sky__exact_keys_avx512

#include "codec/exact.c"
