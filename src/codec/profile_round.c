/* A profile of numbers that take two bytes in a file: means and matrices of pairs as f16.
 *
 * An encoder and a decoder that use the same rounded number agree to the bit, so rounding costs no
 * exactness: a mean that is off by a 2048th leaves that much to be coded, and the matrices, whose
 * inverses are made of what is rounded, part channels that much worse. Steps, of which there are
 * few, and full matrices stay f32. */
#include <math.h>
#include <stdlib.h>

#include "codec/float_env.h"
#include "codec/half.h"
#include "codec/profile.h"

#define F16_NORMAL_MIN 0x1p-14f /* below it f16 has fewer bits than eleven */
#define F16_MAX        65504.0f

/* Whether the largest of x, in magnitude, keeps eleven bits, so that the others are off by at most
 * as much. Shape: x [count], `stride` apart */
static bool round_keeps(const float *x, size_t count, size_t stride) {
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(x[i * stride]));
    return largest == 0 || (largest >= F16_NORMAL_MIN && largest <= F16_MAX);
}

static void round_numbers(float *x, size_t count) {
    const fenv_t before = sky_floats_begin();
    for (size_t i = 0; i < count; i++)
        x[i] = sky_float_of_f16(sky_f16_of_float(x[i]));
    sky_floats_restore(&before);
}

static void round_mean(sky_profile_stream *s) {
    if (!s->mean || !round_keeps(s->mean, s->channels, 1))
        return;
    round_numbers(s->mean, s->channels);
    s->short_parts |= SKY_SHORT_MEAN;
}

/* Matrices that rounding leaves without an inverse stay as they are. */
static sky_status round_pairs(sky_profile_stream *s) {
    size_t pairs = (size_t)s->heads * (s->dim / 2);
    if (!s->g)
        return SKY_OK;
    for (size_t p = 0; p < pairs; p++)
        if (!round_keeps(s->g + p, 4, pairs))
            return SKY_OK;
    float *g = malloc((4 * pairs + 1) * sizeof *g);
    if (!g)
        return SKY_E_NOMEM;
    for (size_t i = 0; i < 4 * pairs; i++)
        g[i] = s->g[i];
    round_numbers(g, 4 * pairs);
    sky_status status = sky__profile_pairs(s, g);
    free(g);
    if (status == SKY_OK)
        s->short_parts |= SKY_SHORT_PAIRS;
    return status == SKY_E_PARAM ? SKY_OK : status;
}

static void round_order(sky_profile_stream *s) {
    if (!s->order[SKY_BASIS_KLT])
        return;
    for (size_t i = 0; i < 2 * (size_t)s->channels; i++)
        if (s->order[SKY_BASIS_KLT][i] != 0)
            return;
    s->short_parts |= SKY_SHORT_ORDER;
}

static sky_status profile_copy(const sky_profile *profile, sky_profile **out) {
    size_t bytes = sky_profile_bytes(profile);
    uint8_t *data = malloc(bytes);
    if (!data)
        return SKY_E_NOMEM;
    sky_status status = sky_profile_write(profile, data, bytes);
    if (status == SKY_OK)
        status = sky_profile_read(data, bytes, out, NULL);
    free(data);
    return status;
}

sky_status sky_profile_round(const sky_profile *profile, sky_profile **out) {
    sky_profile *copy = NULL;
    if (!profile || !out || !profile->sealed)
        return SKY_E_PARAM;
    sky_status status = profile_copy(profile, &copy);
    for (uint32_t i = 0; status == SKY_OK && i < 2 * copy->layer_count; i++) {
        round_mean(&copy->streams[i]);
        round_order(&copy->streams[i]);
        status = round_pairs(&copy->streams[i]);
    }
    if (status == SKY_OK) {
        copy->rounded = true;
        copy->sealed = false; /* nobody else has it yet, and it is another profile now */
        status = sky_profile_seal(copy);
    }
    if (status != SKY_OK) {
        sky_profile_destroy(copy);
        return status;
    }
    *out = copy;
    return SKY_OK;
}
