/* Transforms by AVX-512: what transform.c does, every float operation in the same order. Pairs of
 * channels are taken 16 at a time, both tokens together: they share matrix and mean. */
#include <immintrin.h>
#include <string.h>

#include "codec/half.h"
#include "codec/kernels_avx512.h"

#define KLT_LANES 16u
#include "codec/transform_klt.h"

#define LANES 16u
/* Elements and number of tokens are constants inside: one body for each. */
#define INLINE static inline __attribute__((always_inline))

INLINE __m512 sum_of_products(__m512 a, __m512 f, __m512 b, __m512 g) {
    return _mm512_add_ps(_mm512_mul_ps(a, f), _mm512_mul_ps(b, g));
}

INLINE __mmask16 first_lanes(uint32_t count) {
    return (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1);
}

/* ---- elements ---- */

/* Vectors of even and of odd elements, from two that lie in a row; and back. */
INLINE __m512 evens_of(__m512 a, __m512 b) {
    const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, at, b);
}
INLINE __m512 odds_of(__m512 a, __m512 b) {
    const __m512i at = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, at, b);
}
INLINE __m512 low_by_turns(__m512 a, __m512 b) {
    const __m512i at = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(a, at, b);
}
INLINE __m512 high_by_turns(__m512 a, __m512 b) {
    const __m512i at = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                         31);
    return _mm512_permutex2var_ps(a, at, b);
}

INLINE __m256i bf16_of(__m512 x) {
    __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(rounded, 16), nan, quiet));
}

INLINE __m256i halves_of(__m512 x, sky_element element) {
    return element == SKY_ELEMENT_F16
               ? _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
               : bf16_of(x);
}

/* 16 elements, or the first `count`. */
INLINE void store(__m512 x, sky_element element, uint8_t *out, uint32_t count) {
    if (element == SKY_ELEMENT_F32) {
        _mm512_mask_storeu_ps(out, first_lanes(count), x);
        return;
    }
    __m256i h = halves_of(x, element);
    if (count >= LANES)
        _mm256_storeu_si256((__m256i *)out, h);
    else
        _mm256_mask_storeu_epi16(out, first_lanes(count), h);
}

/* Two vectors of elements, by turns. */
INLINE void store_by_turns(__m512 x, __m512 y, sky_element element, uint8_t *out, uint32_t count) {
    if (element == SKY_ELEMENT_F32) {
        uint32_t elements = count >= LANES ? 2 * LANES : 2 * count;
        store(low_by_turns(x, y), element, out, elements);
        if (elements > LANES)
            store(high_by_turns(x, y), element, out + 64, elements - LANES);
        return;
    }
    __m512i a = _mm512_cvtepu16_epi32(halves_of(x, element));
    __m512i b = _mm512_cvtepu16_epi32(halves_of(y, element));
    _mm512_mask_storeu_epi32(out, first_lanes(count), _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}

/* ---- decoding ---- */

typedef struct {
    const int16_t *sum;
    const int16_t *difference;
    const sky_transform *t;
    uint8_t *out[2]; /* of this head */
    uint32_t head;
    uint32_t tokens; /* 1: there is no difference */
    sky_element element;
} restoring;

/* Levels of 16 channels that lie in a row: of token 0 and 1. */
INLINE void load_levels(const restoring *r, uint32_t channel, __mmask16 lanes, __m512 n[2]) {
    __m256i sum = _mm256_maskz_loadu_epi16(lanes, r->sum + channel);
    if (r->tokens == 2) {
        __m256i difference = _mm256_maskz_loadu_epi16(lanes, r->difference + channel);
        n[1] = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_sub_epi16(sum, difference)));
        sum = _mm256_add_epi16(sum, difference);
    }
    n[0] = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(sum));
}

/* The same of 16 neighbours each: even channels and odd ones. */
INLINE __m512i even_words(__m512i x) {
    return _mm512_srai_epi32(_mm512_slli_epi32(x, 16), 16);
}
INLINE void load_levels_by_turns(const restoring *r, uint32_t channel, __mmask16 lanes,
                                 __m512 even[2], __m512 odd[2]) {
    __m512i n[2] = {_mm512_maskz_loadu_epi32(lanes, r->sum + channel)};
    if (r->tokens == 2) {
        __m512i difference = _mm512_maskz_loadu_epi32(lanes, r->difference + channel);
        n[1] = _mm512_sub_epi16(n[0], difference);
        n[0] = _mm512_add_epi16(n[0], difference);
    }
    for (uint32_t i = 0; i < r->tokens; i++) {
        even[i] = _mm512_cvtepi32_ps(even_words(n[i]));
        odd[i] = _mm512_cvtepi32_ps(_mm512_srai_epi32(n[i], 16));
    }
}

/* From levels to values, in place. `pair` of the head is the first of 16. */
INLINE void unmix(const restoring *r, uint32_t pair, __mmask16 lanes, __m512 x[2], __m512 y[2]) {
    const sky_transform *t = r->t;
    __m512 scale = _mm512_set1_ps(t->scale[2 - r->tokens]), g[4] = {scale, scale, scale, scale};
    for (uint32_t c = 0; t->pairs && c < 4; c++)
        g[c] = _mm512_maskz_loadu_ps(lanes, t->scaled[c] + r->head * (t->dim / 2) + pair);
    for (uint32_t i = 0; i < r->tokens; i++) {
        __m512 a = x[i], b = y[i];
        x[i] = t->pairs ? sum_of_products(a, g[0], b, g[2]) : _mm512_mul_ps(a, scale);
        y[i] = t->pairs ? sum_of_products(a, g[1], b, g[3]) : _mm512_mul_ps(b, scale);
    }
}

INLINE void turn(const sky_transform *t, uint32_t which, uint32_t pair, __mmask16 lanes, __m512 *x,
                 __m512 *y) {
    __m512 c = _mm512_maskz_loadu_ps(lanes, t->cosine[which] + pair);
    __m512 s = _mm512_maskz_loadu_ps(lanes, t->sine[which] + pair), a = *x, b = *y;
    *x = _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s));
    *y = _mm512_add_ps(_mm512_mul_ps(a, s), _mm512_mul_ps(b, c));
}

/* Pairs of channels of a head. */
typedef struct {
    uint32_t pair;  /* of the head */
    uint32_t first; /* channel of its first, and of its second partner */
    uint32_t second;
    bool turned; /* by rope */
} run;

/* Sixteen pairs, `at` after the run's first, or the `left` ones that are left. */
INLINE void restore_some(const restoring *r, const run *o, uint32_t at, uint32_t left) {
    const sky_transform *t = r->t;
    uint32_t base = r->head * t->dim, size = sky_element_bytes(r->element);
    uint32_t first = o->first + at, second = o->second + at;
    __mmask16 lanes = first_lanes(left);
    __m512 x[2], y[2];
    load_levels(r, base + first, lanes, x);
    load_levels(r, base + second, lanes, y);
    unmix(r, o->pair + at, lanes, x, y);
    __m512 mean_x = _mm512_maskz_loadu_ps(lanes, t->mean + base + first);
    __m512 mean_y = _mm512_maskz_loadu_ps(lanes, t->mean + base + second);
    for (uint32_t i = 0; i < r->tokens; i++) {
        x[i] = _mm512_add_ps(x[i], mean_x);
        y[i] = _mm512_add_ps(y[i], mean_y);
        if (o->turned)
            turn(t, i, o->pair + at, lanes, &x[i], &y[i]);
        store(x[i], r->element, r->out[i] + first * size, left);
        store(y[i], r->element, r->out[i] + second * size, left);
    }
}

INLINE void restore_pairs(const restoring *r, const run *o, uint32_t count) {
    uint32_t at = 0;
    for (; at + LANES <= count; at += LANES)
        restore_some(r, o, at, LANES);
    if (at < count)
        restore_some(r, o, at, count - at);
}

/* Pairs of neighbours, from the head's first channel on; all turned. */
INLINE void restore_neighbours(const restoring *r, uint32_t count) {
    const sky_transform *t = r->t;
    uint32_t base = r->head * t->dim, size = sky_element_bytes(r->element);
    for (uint32_t at = 0; at < count; at += LANES) {
        uint32_t left = count - at;
        __mmask16 lanes = first_lanes(left);
        __m512 x[2], y[2];
        load_levels_by_turns(r, base + 2 * at, lanes, x, y);
        unmix(r, at, lanes, x, y);
        const float *mean = t->mean + base + 2 * at;
        __m512 m0 = _mm512_maskz_loadu_ps(first_lanes(2 * left), mean);
        __m512 m1 = _mm512_maskz_loadu_ps(left > 8 ? first_lanes(2 * left - 16) : 0, mean + LANES);
        __m512 mean_x = evens_of(m0, m1), mean_y = odds_of(m0, m1);
        for (uint32_t i = 0; i < r->tokens; i++) {
            x[i] = _mm512_add_ps(x[i], mean_x);
            y[i] = _mm512_add_ps(y[i], mean_y);
            turn(t, i, at, lanes, &x[i], &y[i]);
            store_by_turns(x[i], y[i], r->element, r->out[i] + 2 * at * size, left);
        }
    }
}

/* Channels without a pair: an odd head's last, or all of a head without pairs and rope. */
INLINE void restore_single(const restoring *r, uint32_t at, uint32_t left) {
    const sky_transform *t = r->t;
    uint32_t base = r->head * t->dim, size = sky_element_bytes(r->element);
    __m512 scale = _mm512_set1_ps(t->scale[2 - r->tokens]), x[2];
    __m512 mean = _mm512_maskz_loadu_ps(first_lanes(left), t->mean + base + at);
    load_levels(r, base + at, first_lanes(left), x);
    for (uint32_t i = 0; i < r->tokens; i++)
        store(_mm512_add_ps(_mm512_mul_ps(x[i], scale), mean), r->element, r->out[i] + at * size,
              left);
}

INLINE void restore_singles(const restoring *r, uint32_t at) {
    for (; at + LANES <= r->t->dim; at += LANES)
        restore_single(r, at, LANES);
    if (at < r->t->dim)
        restore_single(r, at, r->t->dim - at);
}

INLINE void restore_head(const restoring *r) {
    const sky_transform *t = r->t;
    uint32_t turned = t->rope ? t->rope->pair_count : 0, rest = t->dim / 2 - turned;
    if (turned && t->rope->kind == SKY_ROPE_INTERLEAVED)
        restore_neighbours(r, turned);
    else if (turned)
        restore_pairs(r, &(run){0, 0, turned, true}, turned);
    if (t->pairs) {
        restore_pairs(r, &(run){turned, 2 * turned, 2 * turned + rest, false}, rest);
        restore_singles(r, 2 * (turned + rest));
    } else {
        restore_singles(r, 2 * turned);
    }
}

/* ---- a row as float ---- */

/* Sixteen pairs, or `count`, from pair p on: first channels, second channels. */
typedef struct {
    float *x; /* first of a head */
    bool neighbours;
    uint32_t apart;
} pair_place;

INLINE void load_pairs(const pair_place *at, uint32_t p, uint32_t count, __m512 *a, __m512 *b) {
    if (!at->neighbours) {
        *a = _mm512_maskz_loadu_ps(first_lanes(count), at->x + p);
        *b = _mm512_maskz_loadu_ps(first_lanes(count), at->x + p + at->apart);
        return;
    }
    __m512 low = _mm512_maskz_loadu_ps(first_lanes(2 * count), at->x + 2 * p);
    __m512 high = _mm512_maskz_loadu_ps(count > 8 ? first_lanes(2 * count - LANES) : 0,
                                        at->x + 2 * p + LANES);
    *a = evens_of(low, high);
    *b = odds_of(low, high);
}

INLINE void store_pairs(const pair_place *at, uint32_t p, uint32_t count, __m512 a, __m512 b) {
    if (!at->neighbours) {
        _mm512_mask_storeu_ps(at->x + p, first_lanes(count), a);
        _mm512_mask_storeu_ps(at->x + p + at->apart, first_lanes(count), b);
        return;
    }
    _mm512_mask_storeu_ps(at->x + 2 * p, first_lanes(2 * count), low_by_turns(a, b));
    _mm512_mask_storeu_ps(at->x + 2 * p + LANES, count > 8 ? first_lanes(2 * count - LANES) : 0,
                          high_by_turns(a, b));
}

/* Turn a row by rope; `back`: undo it. */
static void turn_row(const sky_transform *t, uint32_t which, bool back, float *row) {
    const __m512i sign = _mm512_set1_epi32(back ? INT32_MIN : 0);
    uint32_t turned = t->rope->pair_count;
    for (uint32_t h = 0; h < t->heads; h++) {
        pair_place at = {row + h * t->dim, t->rope->kind == SKY_ROPE_INTERLEAVED, turned};
        for (uint32_t p = 0; p < turned; p += LANES) {
            __mmask16 lanes = first_lanes(turned - p);
            __m512 c = _mm512_maskz_loadu_ps(lanes, t->cosine[which] + p);
            __m512 s = _mm512_maskz_loadu_ps(lanes, t->sine[which] + p), a, b;
            s = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(s), sign));
            load_pairs(&at, p, turned - p, &a, &b);
            __m512 x = _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s));
            store_pairs(&at, p, turned - p, x, sum_of_products(a, s, b, c));
        }
    }
}

static void store_row(const sky_transform *t, const float *row, uint8_t *out, size_t head_bytes) {
    uint32_t size = sky_element_bytes(t->element);
    for (uint32_t h = 0; h < t->heads; h++)
        for (uint32_t i = 0; i < t->dim; i += LANES)
            store(_mm512_maskz_loadu_ps(first_lanes(t->dim - i), row + h * t->dim + i), t->element,
                  out + h * head_bytes + i * size, t->dim - i);
}

/* ---- kernels ---- */

INLINE void restore_heads(restoring r, size_t head_bytes) {
    for (r.head = 0; r.head < r.t->heads; r.head++) {
        restore_head(&r);
        r.out[0] += head_bytes;
        r.out[1] += head_bytes;
    }
}

static void finish_row(const sky_transform *t, uint32_t which, float *row, uint8_t *out,
                       size_t head_bytes) {
    if (t->rope)
        turn_row(t, which, false, row);
    store_row(t, row, out, head_bytes);
}

static void restore_full(const restoring *r, size_t head_bytes) {
    _Alignas(64) int16_t n[2][SKY_WIDTH_MAX];
    float x[2][SKY_WIDTH_MAX];
    for (uint32_t i = 0; i < r->t->padded; i += 32) {
        __m512i sum = _mm512_loadu_si512(r->sum + i), difference = _mm512_setzero_si512();
        if (r->tokens == 2)
            difference = _mm512_loadu_si512(r->difference + i);
        _mm512_store_si512(n[0] + i, _mm512_add_epi16(sum, difference));
        _mm512_store_si512(n[1] + i, _mm512_sub_epi16(sum, difference));
    }
    klt_restore(r->t, (const int16_t(*)[SKY_WIDTH_MAX])n, r->tokens, r->t->scale[2 - r->tokens], x);
    for (uint32_t i = 0; i < r->tokens; i++)
        finish_row(r->t, i, x[i], r->out[i], head_bytes);
}

void sky__transform_restore_avx512(const sky_transform *t, const int16_t *sum,
                                   const int16_t *difference, uint8_t *const out[2],
                                   size_t head_bytes) {
    uint32_t tokens = difference ? 2 : 1;
    restoring r = {sum, difference, t,         {out[0], difference ? out[1] : out[0]},
                   0,   tokens,     t->element};
    if (t->klt) {
        restore_full(&r, head_bytes);
    } else if (tokens == 2 && t->element == SKY_ELEMENT_F16) {
        r.tokens = 2;
        r.element = SKY_ELEMENT_F16;
        restore_heads(r, head_bytes);
    } else if (tokens == 2 && t->element == SKY_ELEMENT_BF16) {
        r.tokens = 2;
        r.element = SKY_ELEMENT_BF16;
        restore_heads(r, head_bytes);
    } else {
        restore_heads(r, head_bytes);
    }
}

/* ---- two tokens whose levels are by token ---- */

/* Are these f16 heads of whole vectors, with partners, if any, in their other half? */
static bool in_chunks(const sky_transform *t) {
    bool partners = !t->rope ||
                    (t->rope->kind == SKY_ROPE_NEOX && t->rope->pair_count == t->dim / 2);
    return t->element == SKY_ELEMENT_F16 && !t->klt && t->dim % (2 * LANES) == 0 && partners;
}

bool sky__restores_by_chunks(const sky_transform *t) {
    return t->klt || in_chunks(t);
}

/* Plain levels: n (2 g) is 2 n g to the last bit, unless 2 g is no number any more. */
bool sky__restores_steps(const sky_pairs_job *job) {
    return job->rows->plain && !job->t->klt && !job->t->large;
}

INLINE __m512 float_of_levels(const int16_t *n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_load_si256((const __m256i *)n)));
}

INLINE void store_f16(__m512 x, uint8_t *out) {
    _mm256_storeu_si256((__m256i *)out,
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Sixteen angles: of a token and, from those of position 2, of the one two after it. */
typedef struct {
    __m512 c;
    __m512 s;
} angles;

INLINE angles load_angles(const sky_transform *t, uint32_t which, uint32_t pair) {
    return (angles){_mm512_load_ps(t->cosine[which] + pair), _mm512_load_ps(t->sine[which] + pair)};
}
INLINE void store_angles(angles a, sky_transform *t, uint32_t which, uint32_t pair) {
    _mm512_store_ps(t->cosine[which] + pair, a.c);
    _mm512_store_ps(t->sine[which] + pair, a.s);
}
INLINE angles turned_on(angles a, angles two) {
    return (angles){_mm512_sub_ps(_mm512_mul_ps(a.c, two.c), _mm512_mul_ps(a.s, two.s)),
                    sum_of_products(a.s, two.c, a.c, two.s)};
}

/* What sixteen pairs of channels have in common from token to token. */
typedef struct {
    uint32_t first; /* channel, and of its first's partner */
    uint32_t second;
    uint32_t pair; /* of the head */
    __m512 g[4];
    __m512 mean[2];
    __m512 scale;
} columns;

INLINE columns columns_of(const sky_pairs_job *job, uint32_t head, uint32_t pair) {
    const sky_transform *t = job->t;
    const __m512 step = _mm512_set1_ps(sky__restores_steps(job) ? 2.0f : 1.0f);
    uint32_t first = head + pair, second = first + t->dim / 2;
    columns k = {.first = first, .second = second, .pair = pair};
    k.mean[0] = _mm512_loadu_ps(t->mean + first);
    k.mean[1] = _mm512_loadu_ps(t->mean + second);
    k.scale = _mm512_mul_ps(_mm512_set1_ps(t->scale[0]), step);
    for (uint32_t i = 0; t->pairs && i < 4; i++)
        k.g[i] = _mm512_mul_ps(_mm512_loadu_ps(t->scaled[i] + head / 2 + pair), step);
    return k;
}

/* A token's sixteen pairs on their way: first channels, second ones. */
typedef struct {
    __m512 x;
    __m512 y;
} couples;

INLINE couples load_couples(const columns *k, const int16_t *levels) {
    return (couples){float_of_levels(levels + k->first), float_of_levels(levels + k->second)};
}

INLINE couples values_of(const columns *k, couples n, bool pairs) {
    __m512 x = pairs ? sum_of_products(n.x, k->g[0], n.y, k->g[2]) : _mm512_mul_ps(n.x, k->scale);
    __m512 y = pairs ? sum_of_products(n.x, k->g[1], n.y, k->g[3]) : _mm512_mul_ps(n.y, k->scale);
    return (couples){_mm512_add_ps(x, k->mean[0]), _mm512_add_ps(y, k->mean[1])};
}

INLINE couples turned_by(couples v, angles a) {
    return (couples){_mm512_sub_ps(_mm512_mul_ps(v.x, a.c), _mm512_mul_ps(v.y, a.s)),
                     sum_of_products(v.x, a.s, v.y, a.c)};
}

/* out: of the head. */
INLINE void store_couples(const columns *k, couples v, uint8_t *out) {
    store_f16(v.x, out + 2 * k->pair);
    store_f16(v.y, out + 2 * (k->pair + k->second - k->first));
}

/* All tokens, two at a time and step by step, so that neither waits alone. Matrix, mean and angles
 * stay in registers, the latter turning on by the way. */
INLINE void restore_chunk(const sky_pairs_job *job, const int16_t (*levels)[SKY_WIDTH_MAX],
                          uint32_t head, uint32_t pair, uint8_t *out, bool pairs, bool turned) {
    sky_transform *t = job->t;
    const columns k = columns_of(job, head, pair);
    const ptrdiff_t token_bytes = job->token_bytes;
    const angles none = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    angles now[2] = {none, none}, two = none;
    if (turned) {
        now[0] = load_angles(t, 0, pair);
        now[1] = load_angles(t, 1, pair);
        two = load_angles(t, 2, pair);
    }
    if (turned && job->turn_on) {
        now[0] = turned_on(now[0], two);
        now[1] = turned_on(now[1], two);
    }
    for (uint32_t left = job->pairs; left > 0; levels += 2, out += 2 * token_bytes) {
        couples a = load_couples(&k, levels[0]), b = load_couples(&k, levels[1]);
        a = values_of(&k, a, pairs);
        b = values_of(&k, b, pairs);
        a = turned ? turned_by(a, now[0]) : a;
        b = turned ? turned_by(b, now[1]) : b;
        store_couples(&k, a, out);
        store_couples(&k, b, out + token_bytes);
        if (--left > 0 && turned) {
            now[0] = turned_on(now[0], two);
            now[1] = turned_on(now[1], two);
        }
    }
    if (turned && head + t->dim == t->width) { /* every head takes them from the start */
        store_angles(now[0], t, 0, pair);
        store_angles(now[1], t, 1, pair);
    }
}

INLINE void restore_chunks(const sky_pairs_job *job, const int16_t (*levels)[SKY_WIDTH_MAX],
                           bool pairs, bool turned) {
    uint8_t *out = job->out;
    uint32_t width = job->t->width, dim = job->t->dim;
    for (uint32_t head = 0; head < width; head += dim, out += job->head_bytes)
        for (uint32_t pair = 0; pair < dim / 2; pair += LANES)
            restore_chunk(job, levels, head, pair, out, pairs, turned);
}

static void restore_full_tokens(const sky_pairs_job *job, const int16_t (*levels)[SKY_WIDTH_MAX]) {
    float x[2 * SKY_PAIRS_MAX][SKY_WIDTH_MAX];
    klt_restore(job->t, levels, 2 * job->pairs, job->t->scale[0], x);
    for (uint32_t i = 0; i < 2 * job->pairs; i++) {
        if (i % 2 == 0 && (i || job->turn_on))
            sky__transform_turn_on_avx512(job->t);
        finish_row(job->t, i % 2, x[i], job->out + i * job->token_bytes, job->head_bytes);
    }
}

void sky__tokens_restore_avx512(const sky_pairs_job *job, const int16_t (*levels)[SKY_WIDTH_MAX]) {
    const sky_transform *t = job->t;
    if (t->klt)
        restore_full_tokens(job, levels);
    else if (t->pairs && t->rope)
        restore_chunks(job, levels, true, true);
    else if (t->pairs)
        restore_chunks(job, levels, true, false);
    else if (t->rope)
        restore_chunks(job, levels, false, true);
    else
        restore_chunks(job, levels, false, false);
}

/* As sine_cosine of rope.c. */
static inline __m512 evaluate_polynomial(const float *coefficients, uint32_t count, __m512 t2) {
    __m512 y = _mm512_set1_ps(coefficients[count - 1]);
    for (uint32_t i = count - 1; i-- > 0;)
        y = _mm512_add_ps(_mm512_mul_ps(y, t2), _mm512_set1_ps(coefficients[i]));
    return y;
}

static inline void sine_cosine(__m512i angle, float *cosine, float *sine) {
    static const float sines[] = {SKY_SIN0, SKY_SIN1, SKY_SIN2, SKY_SIN3, SKY_SIN4};
    static const float cosines[] = {SKY_COS0, SKY_COS1, SKY_COS2, SKY_COS3, SKY_COS4, SKY_COS5};
    const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    __m512i quarter = _mm512_srli_epi32(_mm512_add_epi32(angle, _mm512_set1_epi32(1 << 29)), 30);
    __m512i rest = _mm512_sub_epi32(angle, _mm512_slli_epi32(quarter, 30));
    __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(rest), _mm512_set1_ps(0x1p-32f));
    __m512 t2 = _mm512_mul_ps(t, t);
    __m512i s = _mm512_castps_si512(_mm512_mul_ps(evaluate_polynomial(sines, 5, t2), t));
    __m512i c = _mm512_castps_si512(evaluate_polynomial(cosines, 6, t2));
    __mmask16 odd = _mm512_test_epi32_mask(quarter, one),
              back = _mm512_test_epi32_mask(quarter, two);
    __mmask16 left = _mm512_test_epi32_mask(_mm512_add_epi32(quarter, one), two);
    __m512i a = _mm512_mask_mov_epi32(c, odd, s), b = _mm512_mask_mov_epi32(s, odd, c);
    _mm512_store_si512(cosine, _mm512_mask_xor_epi32(a, left, a, sign));
    _mm512_store_si512(sine, _mm512_mask_xor_epi32(b, back, b, sign));
}

void sky__transform_angles_avx512(sky_transform *t, uint32_t position) {
    for (uint32_t p = 0; t->rope && p < t->rope->pair_count; p += LANES) {
        __m512i turns = _mm512_maskz_loadu_epi32(first_lanes(t->rope->pair_count - p),
                                                 t->rope->turns + p);
        __m512i first = _mm512_mullo_epi32(turns, _mm512_set1_epi32((int32_t)position));
        sine_cosine(first, t->cosine[0] + p, t->sine[0] + p);
        sine_cosine(_mm512_add_epi32(first, turns), t->cosine[1] + p, t->sine[1] + p);
        sine_cosine(_mm512_add_epi32(turns, turns), t->cosine[2] + p, t->sine[2] + p);
    }
}

void sky__transform_turn_on_avx512(sky_transform *t) {
    for (uint32_t p = 0; t->rope && p < t->rope->pair_count; p += LANES)
        for (uint32_t which = 0; which < 2; which++)
            store_angles(turned_on(load_angles(t, which, p), load_angles(t, 2, p)), t, which, p);
}

void sky__transform_scale_avx512(sky_transform *t, uint32_t which) {
    uint32_t pairs = t->heads * (t->dim / 2);
    __m512 scale = _mm512_set1_ps(t->scale[which]);
    __mmask16 large = 0;
    for (uint32_t c = 0; t->pairs && c < 4; c++)
        for (uint32_t p = 0; p < pairs; p += LANES) {
            __m512 m = _mm512_maskz_loadu_ps(first_lanes(pairs - p),
                                             t->matrix + c * t->matrix_pitch + p);
            __m512 g = _mm512_mul_ps(m, scale);
            large |= _mm512_cmp_ps_mask(_mm512_abs_ps(g), _mm512_set1_ps(0x1p127f), _CMP_NLT_UQ);
            _mm512_store_ps(t->scaled[c] + p, g);
        }
    t->large = large;
}

/* ---- encoding ---- */

static inline __m512 load_elements(const uint8_t *in, sky_element element, uint32_t count) {
    __mmask16 lanes = first_lanes(count);
    if (element == SKY_ELEMENT_F32)
        return _mm512_maskz_loadu_ps(lanes, in);
    __m256i halves = _mm256_maskz_loadu_epi16(lanes, in);
    if (element == SKY_ELEMENT_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

void sky__transform_load_avx512(const sky_transform *t, uint32_t which, const uint8_t *in,
                                size_t head_bytes, float *row) {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    const __m512 limit = _mm512_set1_ps(t->element == SKY_ELEMENT_F16 ? 60000.0f : 1e38f);
    uint32_t size = sky_element_bytes(t->element);
    for (uint32_t h = 0; h < t->heads; h++)
        for (uint32_t i = 0; i < t->dim; i += LANES) {
            __m512 x = load_elements(in + h * head_bytes + i * size, t->element, t->dim - i);
            __mmask16 small = _mm512_cmp_ps_mask(_mm512_abs_ps(x), limit, _CMP_LE_OQ);
            _mm512_mask_storeu_ps(row + h * t->dim + i, first_lanes(t->dim - i),
                                  _mm512_mask_mov_ps(nan, small, x));
        }
    if (t->rope)
        turn_row(t, which, true, row);
}

static void forward_pairs(const sky_transform *t, pair_place at, uint32_t pair, uint32_t count) {
    const float *f = t->matrix + pair;
    for (uint32_t p = 0; p < count; p += LANES) {
        __mmask16 lanes = first_lanes(count - p);
        __m512 a, b, m[4];
        for (uint32_t c = 0; c < 4; c++)
            m[c] = _mm512_maskz_loadu_ps(lanes, f + c * t->matrix_pitch + p);
        load_pairs(&at, p, count - p, &a, &b);
        store_pairs(&at, p, count - p, sum_of_products(a, m[0], b, m[2]),
                    sum_of_products(a, m[1], b, m[3]));
    }
}

static void tokens_decorrelate(const sky_transform *t, float *row) {
    uint32_t turned = t->rope ? t->rope->pair_count : 0, rest = t->dim / 2 - turned;
    for (uint32_t i = 0; i < t->width; i += LANES) {
        __mmask16 lanes = first_lanes(t->width - i);
        __m512 x = _mm512_maskz_loadu_ps(lanes, row + i);
        _mm512_mask_storeu_ps(row + i, lanes, _mm512_sub_ps(x, _mm512_load_ps(t->mean + i)));
    }
    for (uint32_t h = 0; t->pairs && h < t->heads; h++) {
        float *x = row + h * t->dim;
        bool neighbours = turned && t->rope->kind == SKY_ROPE_INTERLEAVED;
        uint32_t pair = h * (t->dim / 2);
        forward_pairs(t, (pair_place){x, neighbours, turned}, pair, turned);
        forward_pairs(t, (pair_place){x + 2 * turned, false, rest}, pair + turned, rest);
    }
}

/* Store z; true while every one can be quantised. */
static inline bool put_values(__m512 z, float *out) {
    _mm512_storeu_ps(out, z);
    return _mm512_cmp_ps_mask(_mm512_abs_ps(z), _mm512_set1_ps(SKY_Z_MAX), _CMP_NLE_UQ) == 0;
}

bool sky__transform_forward_avx512(const sky_transform *t, float *row0, float *row1, float *sum,
                                   float *difference) {
    bool fits = true;
    tokens_decorrelate(t, row0);
    if (row1)
        tokens_decorrelate(t, row1);
    if (t->klt)
        klt_forward(t, row0, row1 ? row1 : row0);
    __m512 scale = _mm512_set1_ps(t->scale[row1 ? 0 : 1]);
    for (uint32_t i = 0; i < t->padded; i += LANES) {
        __mmask16 lanes = i < t->width ? first_lanes(t->width - i) : 0;
        __m512 x = _mm512_maskz_loadu_ps(lanes, row0 + i);
        if (row1) {
            __m512 y = _mm512_maskz_loadu_ps(lanes, row1 + i);
            fits &= put_values(_mm512_mul_ps(_mm512_sub_ps(x, y), scale), difference + i);
            x = _mm512_add_ps(x, y);
        }
        fits &= put_values(_mm512_mul_ps(x, scale), sum + i);
    }
    return fits;
}

/* ---- plain rounding, all at once ---- */

/* Two tokens' elements on their way to levels, 16 pairs of channels at a time. */
typedef struct {
    const sky_transform *t;
    const uint8_t *in[2]; /* of the head */
    uint32_t head;        /* its first channel */
    __m256i elements;     /* most of their magnitudes, as bits */
    __m256i levels;
} rounding;

/* Sixteen elements that decoding would have as x and y: before rope, without mean, decorrelated. */
INLINE void load_chunk(rounding *r, uint32_t i, uint32_t pair, __m512 *x, __m512 *y) {
    const sky_transform *t = r->t;
    uint32_t half = t->dim / 2, first = r->head + pair;
    const float *f = t->pairs ? t->matrix + r->head / 2 + pair : NULL;
    __m256i h[2] = {_mm256_loadu_si256((const __m256i *)(r->in[i] + 2 * pair)),
                    _mm256_loadu_si256((const __m256i *)(r->in[i] + 2 * (pair + half)))};
    for (uint32_t k = 0; k < 2; k++)
        r->elements = _mm256_max_epu16(r->elements,
                                       _mm256_and_si256(h[k], _mm256_set1_epi16(0x7fff)));
    __m512 a = _mm512_cvtph_ps(h[0]), b = _mm512_cvtph_ps(h[1]);
    if (t->rope) {
        const __m512 sign = _mm512_set1_ps(-0.0f);
        __m512 c = _mm512_load_ps(t->cosine[i] + pair), u = a;
        __m512 s = _mm512_xor_ps(_mm512_load_ps(t->sine[i] + pair), sign);
        a = _mm512_sub_ps(_mm512_mul_ps(u, c), _mm512_mul_ps(b, s));
        b = sum_of_products(u, s, b, c);
    }
    *x = a = _mm512_sub_ps(a, _mm512_loadu_ps(t->mean + first));
    *y = b = _mm512_sub_ps(b, _mm512_loadu_ps(t->mean + first + half));
    if (t->pairs) {
        size_t pitch = t->matrix_pitch;
        *x = sum_of_products(a, _mm512_loadu_ps(f), b, _mm512_loadu_ps(f + 2 * pitch));
        *y = sum_of_products(a, _mm512_loadu_ps(f + pitch), b, _mm512_loadu_ps(f + 3 * pitch));
    }
}

INLINE void store_rounded(rounding *r, __m512 z, int16_t *out) {
    __m256i n = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(z, _mm512_set1_ps(0.5f))));
    n = _mm256_adds_epi16(n, n);
    r->levels = _mm256_max_epu16(r->levels, _mm256_abs_epi16(n));
    _mm256_storeu_si256((__m256i *)out, n);
}

INLINE void round_head(rounding *r, int16_t *sum, int16_t *difference) {
    const sky_transform *t = r->t;
    uint32_t half = t->dim / 2;
    __m512 scale = _mm512_set1_ps(t->scale[0]);
    for (uint32_t pair = 0; pair < half; pair += LANES) {
        uint32_t first = r->head + pair, second = first + half;
        __m512 x[2], y[2];
        load_chunk(r, 0, pair, &x[0], &y[0]);
        load_chunk(r, 1, pair, &x[1], &y[1]);
        store_rounded(r, _mm512_mul_ps(_mm512_add_ps(x[0], x[1]), scale), sum + first);
        store_rounded(r, _mm512_mul_ps(_mm512_add_ps(y[0], y[1]), scale), sum + second);
        store_rounded(r, _mm512_mul_ps(_mm512_sub_ps(x[0], x[1]), scale), difference + first);
        store_rounded(r, _mm512_mul_ps(_mm512_sub_ps(y[0], y[1]), scale), difference + second);
    }
}

static bool none_above(__m256i x, uint16_t most) {
    return _mm256_cmpgt_epu16_mask(x, _mm256_set1_epi16((short)most)) == 0;
}

bool sky__pair_round_avx512(const sky_transform *t, const uint8_t *const in[2], size_t head_bytes,
                            int16_t *sum, int16_t *difference) {
    const uint16_t f16_of_60000 = 0x7b53;
    rounding r = {.t = t, .in = {in[0], in[1]}};
    if (!in_chunks(t))
        return false;
    for (; r.head < t->width; r.head += t->dim) {
        round_head(&r, sum, difference);
        r.in[0] += head_bytes;
        r.in[1] += head_bytes;
    }
    memset(sum + t->width, 0, (t->padded - t->width) * sizeof *sum);
    memset(difference + t->width, 0, (t->padded - t->width) * sizeof *difference);
    return none_above(r.elements, f16_of_60000) && none_above(r.levels, (uint16_t)SKY_Z_MAX - 2);
}
