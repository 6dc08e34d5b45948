/* The table of AVX2 kernels. */
#include "codec/kernels_avx2.h"

#include "codec/cpu.h"

const sky_codec_kernels sky__kernels_avx2 = {
    .name = "avx2",
    .here = sky__cpu_has_avx2,
    .angles = sky__transform_angles_avx2,
    .turn_on = sky__transform_turn_on_avx2,
    .prepare = sky__decode_prepare_avx2,
    .tables_bytes = SKY_VECTOR_TABLES_BYTES,
    .row_decode = sky__row_decode_avx2,
    .scale = sky__transform_scale_avx2,
    .restore = sky__transform_restore_avx2,
    .restore_pairs = sky__transform_restore_pairs_avx2,
    .join = sky__exact_join_avx2,
    .split = sky__exact_split_avx2,
    .wanted = sky__fineness_wanted_avx2,
    .load = sky__transform_load_avx2,
    .forward = sky__transform_forward_avx2,
    .trellis = sky__trellis_encode_avx2,
    .round = sky__round_encode_avx2,
    .sums = sky__classes_sums_avx2,
    .count = sky__classes_count_avx2,
    .costs = sky__classes_costs_avx2,
    .misfit = sky__classes_misfit_avx2,
    .encode_prepare = sky__encode_prepare_avx2,
    .row_encode = sky__row_encode_avx2,
};
