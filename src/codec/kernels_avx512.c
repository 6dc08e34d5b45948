/* The table of AVX-512 kernels; what has none of its own is AVX2's, which such
 * a CPU has too, or scalar. */
#include "codec/kernels_avx512.h"

#include "codec/cpu.h"
#include "codec/kernels_avx2.h"

const sky_codec_kernels sky__kernels_avx512 = {
    .name = "avx512",
    .here = sky__cpu_has_avx512,
    .angles = sky__transform_angles_avx512,
    .turn_on = sky__transform_turn_on_avx512,
    .prepare = sky__decode_prepare_avx512,
    .tables_bytes = SKY_VECTOR_TABLES_BYTES,
    .row_decode = sky__row_decode_avx512,
    .pairs_decode = sky__pairs_decode_avx512,
    .scale = sky__transform_scale_avx512,
    .restore = sky__transform_restore_avx512,
    .exact_decode = sky__exact_decode_avx512,
    .join = sky__exact_join_avx512,
    .split = sky__exact_split_avx512,
    .wanted = sky__fineness_wanted_avx2,
    .load = sky__transform_load_avx512,
    .forward = sky__transform_forward_avx512,
    .pair_round = sky__pair_round_avx512,
    .trellis = sky__trellis_encode_avx512,
    .round = sky__round_encode_avx512,
    .sums = sky__classes_sums_avx2,
    .count = sky__classes_count_avx2,
    .costs = sky__classes_costs_avx2,
    .misfit = sky__classes_misfit_avx512,
    .encode_prepare = sky__encode_prepare_avx512,
    .row_encode = sky__row_encode_avx512,
};
