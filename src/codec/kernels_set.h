/* A set of kernels that every CPU of its kind has, by the name of KERNELS: the scalar ones, but for
 * those that the file which includes this has redefined. A new kernel is entered here, and in the
 * sets that have all of their own. */
#ifndef SKY_CODEC_KERNELS_SET_H
#define SKY_CODEC_KERNELS_SET_H

#include "codec/kernels.h"

static bool runs_always(void) {
    return true;
}

const sky_codec_kernels KERNELS = {
    .name = NAME,
    .here = runs_always,
    .angles = sky__transform_angles,
    .turn_on = sky__transform_turn_on,
    .prepare = sky__decode_prepare,
    .tables_bytes = TABLES_BYTES,
    .row_decode = sky__row_decode,
    .scale = sky__transform_scale,
    .restore = sky__transform_restore,
    .restore_pairs = sky__transform_restore_pairs,
    .join = sky__exact_join,
    .split = sky__exact_split,
    .wanted = sky__fineness_wanted,
    .load = sky__transform_load,
    .forward = sky__transform_forward,
    .trellis = sky__trellis_encode,
    .round = sky__round_encode,
    .sums = sky__classes_sums,
    .count = sky__classes_count,
    .costs = sky__classes_costs,
    .misfit = sky__classes_misfit,
    .encode_prepare = sky__encode_prepare,
    .row_encode = sky__row_encode,
};

#endif
