/* See fineness.h. */
#include "codec/fineness.h"

#include <math.h>
#include <string.h>

#define LANES 16u /* sums that go on at once, in an order of their own */

const float sky__fineness_step[SKY_FINENESS_COUNT] = {1.41421356237309504880f, 1.0f,
                                                      0.70710678118654752440f, 0.5f};

void sky__fineness_write(const uint8_t *fineness, uint32_t pairs, uint8_t *out) {
    memset(out, 0, (pairs + 3) / 4);
    for (uint32_t p = 0; p < pairs; p++)
        out[p / 4] |= (uint8_t)(fineness[p] << p % 4 * 2);
}

bool sky__fineness_read(const uint8_t *in, uint32_t pairs, uint8_t *fineness) {
    for (uint32_t p = 0; p < pairs; p++)
        fineness[p] = in[p / 4] >> p % 4 * 2 & 3;
    return pairs % 4 == 0 || in[pairs / 4] >> pairs % 4 * 2 == 0;
}

float sky__fineness_wanted(const int8_t *weights, const float *mean, const float *row,
                           uint32_t width) {
    float sums[LANES] = {0}, sum = 0;
    for (uint32_t i = 0; i < width; i += LANES)
        for (uint32_t j = 0; j < LANES && i + j < width; j++) {
            float x = row[i + j];
            x = fabsf(x) <= 1e30f ? x : 0.0f; /* nothing where it is no number */
            sums[j] += (float)weights[i + j] * (x - (mean ? mean[i + j] : 0.0f));
        }
    for (uint32_t j = 0; j < LANES; j++)
        sum += sums[j];
    return sum;
}

uint8_t sky__fineness_of(float wanted) {
    float s = floorf(wanted + (SKY_FINENESS_USUAL + 0.5f));
    return (uint8_t)fminf(fmaxf(s, 0), SKY_FINENESS_COUNT - 1);
}

uint32_t sky__fineness_used(const uint8_t *fineness, uint32_t pairs) {
    uint32_t used = 0;
    for (uint32_t p = 0; p < pairs; p++)
        used |= 1u << fineness[p];
    return used;
}
