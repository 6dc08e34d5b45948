/* The AVX2 kernels, each beside its scalar definition in name and result. */
#ifndef SKY_CODEC_KERNELS_AVX2_H
#define SKY_CODEC_KERNELS_AVX2_H

#include "codec/kernels.h"

void sky__decode_prepare_avx2(sky_tables *tables, const sky_coder *rows);
size_t sky__row_decode_avx2(sky_coder *rows, const sky_tables *tables, uint32_t half,
                            const uint8_t *in, int16_t *levels);
void sky__transform_angles_avx2(sky_transform *t, uint32_t position);
void sky__transform_turn_on_avx2(sky_transform *t);
void sky__transform_scale_avx2(sky_transform *t, uint32_t which);
void sky__transform_restore_avx2(const sky_transform *t, const int16_t *sum,
                                 const int16_t *difference, uint8_t *const out[2],
                                 size_t head_bytes);
void sky__transform_restore_pairs_avx2(sky_transform *t, int16_t (*rows)[SKY_WIDTH_MAX],
                                       const sky_pairs_out *to);
void sky__transform_load_avx2(const sky_transform *t, uint32_t which, const uint8_t *in,
                              size_t head_bytes, float *row);
bool sky__transform_forward_avx2(const sky_transform *t, float *row0, float *row1, float *sum,
                                 float *difference);
void sky__trellis_encode_avx2(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                              int16_t *packed, uint8_t *decisions);
float sky__fineness_wanted_avx2(const int8_t *weights, const float *mean, const float *row,
                                uint32_t width);
void sky__classes_sums_avx2(const sky_levels *levels, uint32_t padded, uint32_t *sums);
void sky__classes_count_avx2(const sky_coder *rows, uint32_t half, const sky_levels *levels,
                             sky_windows *w);
void sky__classes_costs_avx2(const sky_histogram *h, uint32_t shift, uint64_t *cost);
bool sky__classes_misfit_avx2(const sky_coder *rows, uint32_t half, const sky_levels *levels);
void sky__round_encode_avx2(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                            int16_t *packed);
void sky__encode_prepare_avx2(sky_encode_tables *tables, const sky_coder *rows);
uint8_t *sky__row_encode_avx2(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                              const int16_t *packed, uint8_t *end);
bool sky__exact_join_avx2(sky_exact *x, const int16_t *levels0, const int16_t *levels1,
                          const uint8_t *low, uint8_t *out, size_t head_bytes);
void sky__exact_split_avx2(const sky_exact *x, const uint16_t *top, const uint16_t *before,
                           int16_t *packed);

#endif
