/* The AVX2 kernels, each beside its scalar definition in name and result. */
#ifndef SKY_CODEC_KERNELS_AVX2_H
#define SKY_CODEC_KERNELS_AVX2_H

#include "codec/kernels.h"

void sky__decode_prepare_avx2(sky_tables *tables, const sky_coder *rows);
size_t sky__row_decode_avx2(sky_coder *rows, const sky_tables *tables, uint32_t half,
                            const uint8_t *in, int16_t *levels);

#endif
