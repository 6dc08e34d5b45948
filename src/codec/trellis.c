/* See trellis.h. Loops run over SKY_LANE_GROUP channels inside, which compilers turn into vectors.
 * */
#include "codec/trellis.h"

#include <math.h>
#include <string.h>

#define N SKY_LANE_GROUP

/* To nearest, ties to even, for |x| below 2^22: the sum has no room for a fraction. */
static inline float nearest_whole(float x) {
    const float magic = 12582912.0f;
    return (x + magic) - magic;
}

/* The nearest level of each subset (2a + p), and its squared distance. */
typedef struct {
    float error[4][N];
} errors;

static inline float level_even(float z) {
    return 2.0f * nearest_whole(z * 0.25f);
}
static inline float level_odd(float z) {
    return 2.0f * nearest_whole((z - 2.0f) * 0.25f) + 1.0f;
}
/* a = 1: magnitudes, the sign is z's. */
static inline float magnitude_even(float az) {
    return az < 1.5f ? 0.0f : 2.0f * nearest_whole((az - 3.0f) * 0.25f) + 2.0f;
}
static inline float magnitude_odd(float az) {
    float j = nearest_whole((az - 1.0f) * 0.25f);
    return 2.0f * (j < 0.0f ? 0.0f : j) + 1.0f;
}

static inline void measure_errors(const float *z, errors *e) {
    for (uint32_t i = 0; i < N; i++) {
        float az = fabsf(z[i]), even = magnitude_even(az), odd = magnitude_odd(az);
        float d0 = z[i] - 2.0f * level_even(z[i]), d1 = z[i] - 2.0f * level_odd(z[i]);
        float d2 = az - (even > 0.0f ? 2.0f * even - 1.0f : 0.0f), d3 = az - (2.0f * odd - 1.0f);
        e->error[0][i] = d0 * d0;
        e->error[1][i] = d1 * d1;
        e->error[2][i] = d2 * d2;
        e->error[3][i] = d3 * d3;
    }
}

static inline int32_t level_of(float z, uint32_t a, uint32_t parity) {
    float k;
    if (a == 0)
        k = parity ? level_odd(z) : level_even(z);
    else
        k = copysignf(parity ? magnitude_odd(fabsf(z)) : magnitude_even(fabsf(z)), z);
    return (int32_t)k;
}

/* State d = 4A + 2B + C is reached from s = 4C + 2(A ⊕ C) + c, c = 0 or 1, by parity B ⊕ c. */
static inline uint32_t predecessor_of(uint32_t d) {
    uint32_t A = d >> 2, C = d & 1;
    return 4 * C + 2 * (A ^ C);
}

static void step_costs(float cost[8][N], const errors *e, uint8_t *decision) {
    float next[8][N];
    memset(decision, 0, N);
    for (uint32_t d = 0; d < 8; d++) {
        uint32_t s = predecessor_of(d), B = d >> 1 & 1, a = d & 1;
        const float *e0 = e->error[2 * a + B], *e1 = e->error[2 * a + (B ^ 1)];
        for (uint32_t i = 0; i < N; i++) {
            float v0 = cost[s][i] + e0[i], v1 = cost[s + 1][i] + e1[i];
            uint8_t second = v1 < v0;
            next[d][i] = second ? v1 : v0;
            decision[i] = (uint8_t)(decision[i] | second << d);
        }
    }
    memcpy(cost, next, sizeof next);
}

static void trace_back(const float *z, uint32_t rows, size_t pitch, const uint8_t *decisions,
                       uint32_t state, int16_t *packed) {
    for (uint32_t t = rows; t-- > 0;) {
        uint32_t second = decisions[t * N] >> state & 1;
        uint32_t parity = (state >> 1 & 1) ^ second, a = state & 1;
        packed[t * pitch] = (int16_t)(2 * level_of(z[t * pitch], a, parity) + (int32_t)a);
        state = predecessor_of(state) + second;
    }
}

void sky__trellis_encode(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                         int16_t *packed, uint8_t *decisions) {
    for (uint32_t group = 0; group < stride; group += N) {
        float cost[8][N];
        for (uint32_t s = 0; s < 8; s++)
            for (uint32_t i = 0; i < N; i++)
                cost[s][i] = s ? 1e30f : 0.0f;
        for (uint32_t t = 0; t < rows; t++) {
            errors e;
            measure_errors(z + t * pitch + group, &e);
            step_costs(cost, &e, decisions + t * N);
        }
        for (uint32_t i = 0; i < N; i++) {
            uint32_t best = 0;
            for (uint32_t s = 1; s < 8; s++)
                if (cost[s][i] < cost[best][i])
                    best = s;
            trace_back(z + group + i, rows, pitch, decisions + i, best, packed + group + i);
        }
    }
}

void sky__round_encode(const float *z, uint32_t rows, size_t pitch, uint32_t stride,
                       int16_t *packed) {
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t i = 0; i < stride; i++)
            packed[t * pitch + i] = (int16_t)(2 * (int32_t)nearest_whole(z[t * pitch + i] * 0.5f));
}
