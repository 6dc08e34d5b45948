#include "lab/sim/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/prng.h"

#define LN2 0.69314718055994530942

/* ---- popularity ---- */

/* x > 0: m·2^e with m in [√½, √2), and ln m = 2·artanh((m−1)/(m+1)). frexp is exact. */
static double natural_log(double x) {
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752440) {
        m *= 2;
        e--;
    }
    double z = (m - 1) / (m + 1);
    double power = z;
    double sum = 0;
    for (int k = 1; k <= 23; k += 2) {
        sum += power / k;
        power *= z * z;
    }
    return e * LN2 + 2 * sum;
}

/* y <= 0: 2^n·exp(r) with |r| <= ln(2)/2. floor and ldexp are exact. */
static double workload_exponential(double y) {
    double n = floor(y / LN2 + 0.5);
    double r = y - n * LN2;
    double term = 1;
    double sum = 1;
    for (int k = 1; k <= 17; k++) {
        term *= r / k;
        sum += term;
    }
    return ldexp(sum, (int)n);
}

sky_status sky_zipf_init(sky_zipf *z, uint32_t key_count, double exponent) {
    double *cumulative = malloc(key_count * sizeof *cumulative);
    if (!cumulative)
        return SKY_E_NOMEM;
    double sum = 0;
    for (uint32_t i = 0; i < key_count; i++) {
        sum += workload_exponential(-exponent * natural_log((double)i + 1));
        cumulative[i] = sum;
    }
    *z = (sky_zipf){cumulative, key_count};
    return SKY_OK;
}

void sky_zipf_deinit(sky_zipf *z) {
    free(z->cumulative);
    *z = (sky_zipf){NULL, 0};
}

/* The first key whose sum exceeds the draw. */
uint32_t sky_zipf_draw(const sky_zipf *z, sky_prng *prng) {
    double draw = sky_prng_unit(prng) * z->cumulative[z->key_count - 1];
    uint32_t low = 0;
    uint32_t high = z->key_count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (z->cumulative[middle] > draw)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

sky_time sky_gap_draw(sky_prng *prng, sky_time mean_ns) {
    return (sky_time)(-natural_log(1 - sky_prng_unit(prng)) * (double)mean_ns + 0.5);
}

/* ---- values ---- */

sky_key sky_value_key(const sky_value *v) {
    uint8_t name[12];
    sky_store_u64(name, v->seed);
    sky_store_u32(name + 8, v->key);
    sky_blake2b h;
    sky_blake2b_init(&h, NULL);
    sky_blake2b_add(&h, name, sizeof name);
    sky_key key;
    sky_blake2b_end(&h, key.bytes);
    sky_store_u32(key.bytes + SKY_KEY_BYTES - 4, v->key);
    return key;
}

uint32_t sky_value_key_number(const sky_key *key) {
    return sky_load_u32(key->bytes + SKY_KEY_BYTES - 4);
}

static uint64_t stream_of(const sky_value *v) {
    return sky_mix64(v->seed + 0x9e3779b97f4a7c15u * ((uint64_t)v->key << 32 | v->version));
}

#define PAD_WORDS 4096u

/* Bytes little-endian on every machine; one pad and its beginning again, so that no run wraps. */
static const uint8_t *workload_pad(void) {
    static _Thread_local uint8_t bytes[2 * PAD_WORDS * 8];
    static _Thread_local bool made;
    for (uint64_t i = 0; !made && i < 2 * PAD_WORDS; i++)
        sky_store_u64(bytes + 8 * i, sky_mix64((i % PAD_WORDS + 1) * 0x9e3779b97f4a7c15u));
    made = true;
    return bytes;
}

/* Where a value's words come from between `offset` and the end of its round. */
typedef struct {
    const uint8_t *from; /* into the pad */
    uint8_t cross[8];
    uint64_t bytes;
} run;

static run run_at(const sky_value *v, uint64_t offset) {
    uint64_t stream = stream_of(v);
    uint64_t round = offset / (8 * PAD_WORDS);
    uint64_t within = offset % (8 * PAD_WORDS);
    run r = {.from = workload_pad() + 8 * (stream % PAD_WORDS) + within,
             .bytes = 8 * PAD_WORDS - within};
    uint8_t cross[8];
    sky_store_u64(cross, sky_mix64(stream + round * 0x9e3779b97f4a7c15u));
    for (size_t i = 0; i < 8; i++) /* turned, so that it begins at the run's first byte */
        r.cross[i] = cross[(within + i) % 8];
    return r;
}

/* Two words at once, on any machine. */
typedef uint64_t words __attribute__((vector_size(16)));

static words cross_of(const run *r) {
    uint64_t cross;
    memcpy(&cross, r->cross, 8);
    return (words){cross, cross};
}

static void cross_words(const run *r, uint8_t *out, size_t bytes) {
    const words cross = cross_of(r);
    size_t i = 0;
    for (words w; i + sizeof w <= bytes; i += sizeof w) {
        memcpy(&w, r->from + i, sizeof w);
        w ^= cross;
        memcpy(out + i, &w, sizeof w);
    }
    for (; i < bytes; i++)
        out[i] = r->from[i] ^ r->cross[i % 8];
}

static bool are_crossed(const run *r, const uint8_t *data, size_t bytes) {
    const words cross = cross_of(r);
    words differ = {0};
    size_t i = 0;
    for (words a, b; i + sizeof a <= bytes; i += sizeof a) {
        memcpy(&a, r->from + i, sizeof a);
        memcpy(&b, data + i, sizeof b);
        differ |= a ^ b ^ cross;
    }
    uint64_t rest = differ[0] | differ[1];
    for (; i < bytes; i++)
        rest |= data[i] ^ r->from[i] ^ r->cross[i % 8];
    return rest == 0;
}

void sky_value_fill(const sky_value *v, uint64_t offset, void *out, size_t bytes) {
    uint8_t *at = out;
    while (bytes > 0) {
        run r = run_at(v, offset);
        size_t take = r.bytes < bytes ? (size_t)r.bytes : bytes;
        cross_words(&r, at, take);
        at += take;
        offset += take;
        bytes -= take;
    }
}

bool sky_value_equal(const sky_value *v, uint64_t offset, const void *data, size_t bytes) {
    const uint8_t *at = data;
    while (bytes > 0) {
        run r = run_at(v, offset);
        size_t take = r.bytes < bytes ? (size_t)r.bytes : bytes;
        if (!are_crossed(&r, at, take))
            return false;
        at += take;
        offset += take;
        bytes -= take;
    }
    return true;
}

/* ---- latencies ---- */

/* Up to 1023 each nanosecond has a step; above, 1024 steps share an octave. */
static size_t step_of(uint64_t ns) {
    if (ns < 1024)
        return (size_t)ns;
    unsigned octave = 63 - (unsigned)__builtin_clzll(ns); /* from 10 */
    return (octave - 9) * 1024 + (size_t)(ns >> (octave - 10)) - 1024;
}

static double step_top_ns(size_t step) {
    if (step < 1024)
        return (double)step;
    unsigned octave = (unsigned)(step / 1024) + 9;
    return ldexp((double)(step % 1024 + 1025), (int)octave - 10) - 1;
}

void sky_latencies_add(sky_latencies *l, sky_time ns) {
    l->steps[step_of(ns < 0 ? 0 : (uint64_t)ns)]++;
    l->count++;
}

/* The rank-th smallest, from 1. */
static double ms_of_rank(const sky_latencies *l, uint64_t rank) {
    uint64_t below = 0;
    for (size_t i = 0; i < sizeof l->steps / sizeof *l->steps; i++) {
        below += l->steps[i];
        if (below >= rank)
            return step_top_ns(i) / 1e6;
    }
    return INFINITY;
}

double sky_latencies_ms(const sky_latencies *l, double share) {
    uint64_t rank = (uint64_t)ceil(share * (double)l->count);
    return l->count > 0 ? ms_of_rank(l, rank > 0 ? rank : 1) : 0;
}

#define TAIL       0.025 /* on each side */
#define NEGLIGIBLE 1e-12

/* How many of n latencies are below the quantile is binomial: B of n by `share`. From the mode on
 * either way each probability follows from its neighbour's. *low is the largest rank with
 * P(B < low) <= TAIL, *high the smallest with P(B >= high) <= TAIL; n + 1: there is none. */
static void bounding_ranks(uint64_t n, double share, uint64_t *low, uint64_t *high) {
    double odds = share / (1 - share), weight = 1, total = 1;
    uint64_t mode = (uint64_t)((double)n * share), first = mode;
    for (; first > 0 && weight > NEGLIGIBLE; first--) {
        weight *= (double)first / ((double)(n - first) + 1) / odds;
        total += weight;
    }
    double lightest = weight;
    uint64_t k = mode;
    for (weight = 1; k < n && weight > NEGLIGIBLE; k++) {
        weight *= (double)(n - k) / ((double)k + 1) * odds;
        total += weight;
    }
    double below = 0; /* P(B < k), times total; weight: P(B = k) */
    weight = lightest;
    *low = 0;
    for (k = first; k <= n && total - below > TAIL * total; k++) {
        *low = below <= TAIL * total ? k : *low;
        below += weight;
        weight *= (double)(n - k) / ((double)k + 1) * odds;
    }
    *high = k;
}

sky_quantile sky_latencies_quantile(const sky_latencies *l, double share) {
    if (l->count == 0)
        return (sky_quantile){.high_ms = INFINITY};
    uint64_t low, high;
    bounding_ranks(l->count, share, &low, &high);
    return (sky_quantile){.ms = sky_latencies_ms(l, share),
                          .low_ms = low > 0 ? ms_of_rank(l, low) : 0,
                          .high_ms = high <= l->count ? ms_of_rank(l, high) : INFINITY};
}
