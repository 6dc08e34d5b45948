/* Rows, profiles and buffers for the codec's tests. */
#ifndef SKY_CODEC_FIXTURE_H
#define SKY_CODEC_FIXTURE_H

#include <skymem/codec.h>

/* Rows as models make them: channels of unequal variance and mean, tokens that resemble the one
 * before; keys turned by `rope`. The same for the same seed. Shape: out [token, head, dim] f32 */
void fixture_rows(uint64_t seed, const sky_stream_shape *shape, const sky_rope *rope, float *out);

/* The same as elements, packed. */
void *fixture_elements(uint64_t seed, const sky_stream_shape *shape, const sky_rope *rope);

size_t fixture_bytes(const sky_stream_shape *shape);
float fixture_value(sky_element element, const void *elements, size_t i);

/* A fitted profile for one layer of this shape; klt: with a full matrix too. */
sky_profile *fixture_profile(const sky_stream_shape *shape, sky_rope_kind kind, bool klt);

/* 64-byte aligned, of the size sky_encode and the decoder want. */
void *fixture_work(void);

/* Encode into malloc'ed bytes. */
uint8_t *fixture_encode(const sky_profile *profile, const sky_stream_shape *shape,
                        const sky_encode_options *options, const void *elements, size_t *bytes);

#endif
