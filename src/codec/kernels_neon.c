/* The table of NEON kernels, which every arm64 has; what has none of its own is scalar. */
#include "codec/kernels_neon.h"

static bool always(void) {
    return true;
}

const sky_codec_kernels sky__kernels_neon = {
    .name = "neon",
    .here = always,
    .angles = sky__transform_angles,
    .turn_on = sky__transform_turn_on,
    .prepare = sky__decode_prepare_neon,
    .row_decode = sky__row_decode_neon,
    .scale = sky__transform_scale,
    .restore = sky__transform_restore,
    .join = sky__exact_join,
    .split = sky__exact_split,
    .load = sky__transform_load,
    .forward = sky__transform_forward,
    .trellis = sky__trellis_encode,
    .round = sky__round_encode,
    .misfit = sky__classes_misfit,
    .encode_prepare = sky__encode_prepare,
    .row_encode = sky__row_encode,
};
