/* The AVX-512 kernels, each beside its scalar definition in name and result. */
#ifndef SKY_CODEC_KERNELS_AVX512_H
#define SKY_CODEC_KERNELS_AVX512_H

#include "codec/kernels.h"

void sky__decode_prepare_avx512(sky_tables *tables, const sky_coder *rows);
size_t sky__row_decode_avx512(sky_coder *rows, const sky_tables *tables, uint32_t half,
                              const uint8_t *in, int16_t *levels);
void sky__pairs_decode_avx512(sky_pairs_job *jobs, uint32_t count);
void sky__exact_decode_avx512(sky_exact_job *jobs, uint32_t count);
void sky__transform_angles_avx512(sky_transform *t, uint32_t position);
void sky__transform_turn_on_avx512(sky_transform *t);
void sky__transform_restore_avx512(const sky_transform *t, const int16_t *sum,
                                   const int16_t *difference, uint8_t *const out[2],
                                   size_t head_bytes);
/* Does sky__tokens_restore_avx512 take them? */
bool sky__restores_by_chunks(const sky_transform *t);
/* Does it take levels of steps, or of half steps? */
bool sky__restores_steps(const sky_pairs_job *job);
/* Tokens, an even number of them, whose sums and differences of levels are taken already.
 * Shape:  levels [token][channel]; out: the first token's */
void sky__tokens_restore_avx512(const sky_pairs_job *job, const int16_t (*levels)[SKY_WIDTH_MAX]);
void sky__transform_scale_avx512(sky_transform *t, uint32_t which);
void sky__transform_load_avx512(const sky_transform *t, uint32_t which, const uint8_t *in,
                                size_t head_bytes, float *row);
bool sky__transform_forward_avx512(const sky_transform *t, float *row0, float *row1, float *sum,
                                   float *difference);
bool sky__pair_round_avx512(const sky_transform *t, const uint8_t *const in[2], size_t head_bytes,
                            int16_t *sum, int16_t *difference);
bool sky__classes_misfit_avx512(const sky_coder *rows, uint32_t half, const sky_levels *levels);
void sky__trellis_encode_avx512(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                                int16_t *packed, uint8_t *decisions);
void sky__round_encode_avx512(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                              int16_t *packed);
void sky__encode_prepare_avx512(sky_encode_tables *tables, const sky_coder *rows);
uint8_t *sky__row_encode_avx512(sky_coder *rows, const sky_encode_tables *tables, uint32_t half,
                                const int16_t *packed, uint8_t *end);
bool sky__exact_join_avx512(sky_exact *x, const int16_t *levels0, const int16_t *levels1,
                            const uint8_t *low, uint8_t *out, size_t head_bytes);
void sky__exact_split_avx512(const sky_exact *x, const uint16_t *top, const uint16_t *before,
                             int16_t *packed);

#endif
