/* The transforms by AVX2: the scalar text once more, whose loops become vectors. */
#define sky__transform_angles  sky__transform_angles_avx2
#define sky__transform_turn_on sky__transform_turn_on_avx2
#define sky__transform_scale   sky__transform_scale_avx2
#define sky__transform_restore sky__transform_restore_avx2
#define sky__transform_load    sky__transform_load_avx2
#define sky__transform_forward sky__transform_forward_avx2

#include "codec/transform.c"
