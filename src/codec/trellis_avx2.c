/* The trellis and rounding by AVX2: the scalar text once more, whose loops compilers make vectors
 * of. */
#define sky__trellis_encode sky__trellis_encode_avx2
#define sky__round_encode   sky__round_encode_avx2

#include "codec/trellis.c"
