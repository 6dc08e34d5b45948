/* What the simulator asks for: keys drawn by popularity, and values that anyone can recompute from
 * (seed, key, version), so that a byte of any answer can be judged without keeping a copy.
 *
 * Surprise: no libm here. The draw decides what happens next in a run that must be the same on
 * every machine, and pow() is not; basic arithmetic is. */
#ifndef SKY_LAB_SIM_WORKLOAD_H
#define SKY_LAB_SIM_WORKLOAD_H

#include <skymem/types.h>

#include "base/prng.h"

/* Zipf's law: key i (from 0) is drawn with weight 1 / (i+1)^exponent; exponent 0 is uniform. */
typedef struct {
    double *cumulative; /* [key_count] sums of the weights */
    uint32_t key_count;
} sky_zipf;

/* Shape:  key_count >= 1, exponent 0 to 10
 * Errors: SKY_E_NOMEM */
sky_status sky_zipf_init(sky_zipf *z, uint32_t key_count, double exponent);
void sky_zipf_deinit(sky_zipf *z);
uint32_t sky_zipf_draw(const sky_zipf *z, sky_prng *prng);

/* The time to the next of arrivals that know nothing of each other, `mean_ns` apart in the mean. */
sky_time sky_gap_draw(sky_prng *prng, sky_time mean_ns);

/* The name of a value: which key, and which of the values it had, from 1. */
typedef struct {
    uint64_t seed;
    uint32_t key;
    uint32_t version;
} sky_value;

/* A value is a pad of random words, the same for all, begun at a place of the value's own and
 * crossed with a word of its own that changes each time round: quick, and no byte of one value is
 * at home in another or elsewhere in the same. */

/* The same for all versions; its last four bytes are the key's number, so that a key met again in
 * the sky can be told. */
sky_key sky_value_key(const sky_value *v);
uint32_t sky_value_key_number(const sky_key *key);
/* Bytes [offset, offset + bytes) of the value. */
void sky_value_fill(const sky_value *v, uint64_t offset, void *out, size_t bytes);
bool sky_value_equal(const sky_value *v, uint64_t offset, const void *data, size_t bytes);

/* Latencies by size, in 1024 steps an octave (0.1 % apart), for quantiles without keeping each. */
typedef struct {
    uint64_t count;
    uint32_t steps[55 * 1024];
} sky_latencies;

void sky_latencies_add(sky_latencies *l, sky_time ns);
/* The smallest step that at least `share` (0 to 1) of the latencies do not exceed, in ms; 0 of
 * none. */
double sky_latencies_ms(const sky_latencies *l, double share);

/* A quantile, and where that of all such latencies lies with a probability of 95 % or more. The
 * bounds are two of the latencies themselves (order statistics), so they take no shape for granted;
 * but as many are needed beyond the quantile: of fewer than 368, a 99th percentile has no upper
 * bound. They count latencies as if one told nothing of the next. */
typedef struct {
    double ms;
    double low_ms;
    double high_ms; /* INFINITY: there are too few to say */
} sky_quantile;

/* Shape:  share above 0 and below 1 */
sky_quantile sky_latencies_quantile(const sky_latencies *l, double share);

#endif
